"""The application of a worker: all routes behind the gate."""

import json
from functools import partial
from importlib import resources
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router

from tocsin.serve import inbox_routes, insight_routes, match_routes, subscription_routes
from tocsin.serve.gate import Gate
from tocsin.serve.openapi import openapi
from tocsin.serve.service import Service
from tocsin.serve.tenants import KeyFile

_STATIC = {
    "/": ("page.html", "text/html"),
    "/page.js": ("page.js", "text/javascript"),
    "/page.css": ("page.css", "text/css"),
}
_POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:"


def application(service: Service) -> Gate:
    """Return the application of a worker."""
    router = Router(
        [
            *_static(),
            *subscription_routes.routes(service),
            *match_routes.routes(service),
            *insight_routes.routes(service),
            *inbox_routes.routes(service),
        ],
        redirect_slashes=False,
    )
    return Gate(router, partial(match_routes.match, service), KeyFile(Path(service.settings.keys)), service.board)


def _static() -> list[Route]:
    """Return the page and the OpenAPI document, which are read once."""

    def fixed(content: bytes, media_type: str) -> Response:
        headers = {"content-security-policy": _POLICY, "x-content-type-options": "nosniff", "cache-control": "no-cache"}
        return Response(content, media_type=media_type, headers=headers)

    folder = resources.files("tocsin.serve") / "static"
    pages = {path: fixed((folder / name).read_bytes(), kind) for path, (name, kind) in _STATIC.items()}
    pages["/openapi.json"] = fixed(json.dumps(openapi()).encode(), "application/json")

    async def page(request: Request) -> Response:
        return pages[request.url.path]

    return [Route(path, page, methods=["GET"]) for path in pages]
