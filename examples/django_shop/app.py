"""A Django project in one file, with a view that creates jobs."""

from __future__ import annotations

from secrets import token_hex

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import path

from examples.shop.jobs import Order, service
from trellis_jobs import ConnectOptions, JobExists

settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["127.0.0.1"], SECRET_KEY=token_hex())
receipts = service.connect_sync(ConnectOptions.from_environment()).queue(service.jobs.send_receipt)


def take_order(request: HttpRequest) -> HttpResponse:
    order = Order.model_validate_json(request.body)
    job_id = f"receipt-{order.number}"
    try:
        receipts.create(order, job_id=job_id)
    except JobExists:
        return JsonResponse({"job": job_id})
    return JsonResponse({"job": job_id}, status=202)


urlpatterns = [path("orders", take_order)]
application = get_wsgi_application()
