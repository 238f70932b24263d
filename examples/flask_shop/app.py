"""A Flask application that creates jobs and shows their state."""

from __future__ import annotations

from flask import Flask, request
from flask.typing import ResponseReturnValue
from pydantic import ValidationError

from examples.shop.jobs import Order, service
from trellis_jobs import ConnectOptions, JobExists, JobNotFound, JobsError

app = Flask(__name__)
receipts = service.connect_sync(ConnectOptions.from_environment()).queue(service.jobs.send_receipt)


@app.post("/orders")
def take_order() -> ResponseReturnValue:
    order = Order.model_validate(request.get_json())
    job_id = f"receipt-{order.number}"
    try:
        receipts.create(order, job_id=job_id)
    except JobExists:
        return {"job": job_id}, 200
    return {"job": job_id}, 202


@app.get("/orders/<int:number>/receipt")
def receipt(number: int) -> ResponseReturnValue:
    job = receipts.ref(f"receipt-{number}").get()
    return {"state": job.state, "result": job.result}


@app.errorhandler(ValidationError)
def bad_request(error: ValidationError) -> ResponseReturnValue:
    return {"error": str(error)}, 400


@app.errorhandler(JobNotFound)
def not_found(error: JobNotFound) -> ResponseReturnValue:
    return {"error": str(error)}, 404


@app.errorhandler(JobsError)
def unavailable(error: JobsError) -> ResponseReturnValue:
    app.logger.exception("could not create or read a job")
    return {"error": "try again later"}, 503
