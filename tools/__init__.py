"""Programs that keep the repository in order: generators of pages, and checks of prose."""
