"""Check the syntax of a generated module: it may only declare types.

A manifest is untrusted input. Nothing in it may become code that runs.
"""

from __future__ import annotations

import ast
from typing import Final

from trellis_jobs.contract.codegen.annotations import SOURCES
from trellis_jobs.errors import DeclarationError

_NODES: Final = (
    *(ast.Module, ast.Import, ast.ImportFrom, ast.alias, ast.ClassDef, ast.Pass, ast.Expr),
    *(ast.Assign, ast.AnnAssign, ast.Call, ast.keyword, ast.Name, ast.Attribute, ast.Subscript),
    *(ast.Constant, ast.List, ast.Dict, ast.Set, ast.Tuple, ast.BinOp, ast.BitOr),
    *(ast.UnaryOp, ast.USub, ast.Load, ast.Store),
)
_TYPES: Final = frozenset(
    {"str", "int", "float", "bool", "bytes", "list", "dict", "set", "tuple", "object"}
)
_CALLABLE: Final = frozenset(
    {
        *("job", "KeyConcurrency", "QueueDepth", "Cron", "Every"),
        *("Field", "ConfigDict", "Secret", "set"),
    }
)
_MODULES: Final = frozenset({*SOURCES.values(), "__future__"})


def check_inert(source: str) -> None:
    """Raises DeclarationError for a module that could do more than declare classes."""
    try:
        module = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise DeclarationError(f"the manifest results in invalid Python: {error}") from error
    nodes = list(ast.walk(module))
    classes = {node.name for node in nodes if isinstance(node, ast.ClassDef)}
    known = SOURCES.keys() | _TYPES | classes | {"dt"}
    for node in nodes:
        if not (isinstance(node, _NODES) and _is_expected(node, known)):
            line = getattr(node, "lineno", 0)
            raise DeclarationError(
                f"line {line} of the generated module does more than declare types"
            )


def _is_expected(node: ast.AST, known: frozenset[str] | set[str]) -> bool:
    match node:
        case ast.ImportFrom(module=name):
            return name in _MODULES
        case ast.Import(names=[ast.alias(name=name)]):
            return name == "datetime"
        case ast.Name(id=name, ctx=ast.Load()):
            return name in known
        case ast.Attribute(attr=name):
            return name == "join" or not name.startswith("_")
        case ast.Call(func=ast.Name(id=name)):
            return name in _CALLABLE
        case ast.Call(func=called):
            return isinstance(called, ast.Attribute) and ast.unparse(called) == "''.join"
        case ast.Expr(value=value):
            return isinstance(value, ast.Constant)
        case _:
            return not isinstance(node, ast.Import)
