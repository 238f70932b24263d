"""A FastAPI application that creates jobs and shows their state."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from examples.shop.jobs import Order, service
from trellis_jobs import ConnectOptions, JobExists, JobNotFound, JobsError, JobState


class Taken(BaseModel):
    job: str


class Receipt(BaseModel):
    state: JobState
    result: str | None


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    async with service.connect(ConnectOptions.from_environment(), workers=False):
        yield


app = FastAPI(lifespan=lifespan)
receipts = service.jobs.send_receipt


@app.post("/orders", status_code=202)
async def take_order(order: Order, response: Response) -> Taken:
    job_id = f"receipt-{order.number}"
    try:
        await receipts.create(order, job_id=job_id)
    except JobExists:
        response.status_code = 200
    return Taken(job=job_id)


@app.get("/orders/{number}/receipt")
async def receipt(number: int) -> Receipt:
    try:
        job = await receipts.ref(f"receipt-{number}").get()
    except JobNotFound as error:
        raise HTTPException(404, str(error)) from error
    return Receipt(state=job.state, result=job.result)


@app.exception_handler(JobsError)
async def unavailable(_: Request, error: JobsError) -> JSONResponse:
    return JSONResponse({"error": str(error)}, status_code=503)
