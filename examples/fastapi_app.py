"""A web service around one capability, with FastAPI; serve it with `uvicorn fastapi_app:app`.

A request names its intent by its path, so the same `PUT` again is the same action: it goes on after
an approval, and never charges twice. Nothing but the program that authenticated a user may say who
acts; here that is a proxy in front, which sets the header `X-User`.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI, Header, HTTPException, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from amends import Amends, AmendsError, ApprovalPolicy, Attempt, ByRole, Principal, capability

STAFF = {
    "alice": Principal.named("alice", roles=["finance"]),
    "bob": Principal.named("bob", roles=["finance"]),
}
STATUS_OF_FAMILY = {
    "refused": 403,
    "conflict": 409,
    "outcome_unknown": 202,  # taken in; nobody knows yet, and nobody has to send it again
    "provider_failed": 502,
    "unavailable": 503,
}


class Order(BaseModel):
    """What is charged, in minor units."""

    amount: Annotated[int, Field(ge=1)]
    currency: Annotated[str, Field(pattern="^[a-z]{3}$")]


@capability(
    "shop.charge", side_effects=["financial"], approval=ApprovalPolicy(rule=ByRole("finance"))
)
async def charge(order: Order, attempt: Attempt) -> dict[str, str]:
    """Charge the customer; a real one would call the provider here, with this key."""
    return {"charge": f"ch_{attempt.provider_key}"}


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """One engine for one process, with recovery in the background."""
    async with Amends.open("sqlite:///shop.db", [charge]) as amends:
        app.state.amends = amends
        yield


app = FastAPI(title="Shop", lifespan=lifespan)


@app.exception_handler(AmendsError)
async def refused(_: Request, error: AmendsError) -> JSONResponse:
    """Errors as they are: a code, a sentence and the next step, never an input or a secret."""
    said = {"code": error.code, "message": error.message, "next": error.next_step}
    return JSONResponse(said, STATUS_OF_FAMILY.get(error.family, 500))


def acting(request: Request, x_user: Annotated[str, Header()]) -> Amends:
    """The engine, seen by whoever sent the request."""
    if x_user not in STAFF:
        raise HTTPException(401, "Nobody of the staff.")
    engine: Amends = request.app.state.amends
    return engine.acting_as(STAFF[x_user])


Acting = Annotated[Amends, Depends(acting)]


@app.put("/orders/{number}/charge")
async def put_charge(number: int, order: Order, amends: Acting) -> JSONResponse:
    """Charge an order. 200: it is done; 202: somebody has to say yes, or nobody knows yet."""
    result = await amends.execute(
        charge, order, transaction_id=f"order-{number}", action_id=f"charge-{number}"
    )
    said = {"status": result.status, "approval": result.approval_id}
    return JSONResponse(said, 200 if result.effect_is_there else 202)


@app.get("/orders/{number}/charge")
async def get_charge(number: int, amends: Acting) -> dict[str, str]:
    """Where the charge stands."""
    view = await amends.get(f"order-{number}")
    return {"status": view.result.status}


@app.post("/approvals/{approval_id}")
async def approve(approval_id: str, amends: Acting) -> dict[str, str]:
    """Say yes. Nothing runs until the requester sends the same charge again."""
    return {"status": (await amends.approve(approval_id)).status}
