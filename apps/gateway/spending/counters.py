"""Recent usage of workspaces and sessions, counted in Valkey for all gateway processes.

A minute is the last twelve five-second slots by Valkey's clock, so that processes' clocks needn't agree. A request is checked and counted in one
script, so concurrent ones can't exceed a limit. Tokens and money are only known at the end of a reply, so the call that exceeds a limit passes, and the
next one waits. Nothing is reserved, so a killed process leaves nothing to be released.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from decimal import ROUND_UP, Decimal
from typing import Any, NamedTuple
from uuid import UUID

import redis.asyncio
from django.conf import settings
from django.db import InterfaceError, OperationalError
from redis.exceptions import RedisError

from apps.gateway.refusals import LimitReached, RateLimited, RecorderAway
from apps.gateway.spending.models import UsageLimits

NANO = Decimal(1_000_000_000)
"""Money is counted in integer billionths of a dollar."""
SPEND_SECONDS = 600
"""After this time, spending is summed from the database again: a process that was killed may have stored a call without counting it."""
VALKEY_SECONDS = 2.0
LUA_USED = """
-- A minute is twelve slots of five seconds, and the one that goes on.
local function used(key, slot)
  local sum, amounts, slots = 0, {}, {}
  local all = redis.call('HGETALL', key)
  for j = 1, #all, 2 do
    local each = tonumber(all[j])
    if each > slot - 13 then
      amounts[each] = tonumber(all[j + 1]); sum = sum + amounts[each]; slots[#slots + 1] = each
    else
      redis.call('HDEL', key, all[j])
    end
  end
  table.sort(slots)
  return sum, amounts, slots
end
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
local slot, day = math.floor(now / 5), math.floor(now / 86400)
"""
ADMIT = (
    LUA_USED
    + """
local windows = tonumber(ARGV[1])
for i = 1, windows do
  local limit, add = tonumber(ARGV[2 * i]), tonumber(ARGV[2 * i + 1])
  local sum, amounts, slots = used(KEYS[i], slot)
  if sum >= limit or sum + add > limit then
    local left = sum
    for _, each in ipairs(slots) do
      left = left - amounts[each]
      if left < limit and left + add <= limit then return {1, i, tostring((each + 13) * 5 - now)} end
    end
    return {1, i, '60'}
  end
end
for i = windows + 1, #KEYS do
  local spent = redis.call('GET', KEYS[i] .. ':' .. day)
  if not spent then return {3, i, tostring(day)} end
  if tonumber(spent) >= tonumber(ARGV[windows + i + 1]) then return {2, i, tostring(86400 - now % 86400)} end
end
for i = 1, windows do
  local add = tonumber(ARGV[2 * i + 1])
  if add > 0 then redis.call('HINCRBY', KEYS[i], slot, add); redis.call('EXPIRE', KEYS[i], 120) end
end
return {0, 0, ''}
"""
)
"""KEYS: windows, then money. ARGV: number of windows; limit and increment of each; limits of money."""
ADD = """
local time = redis.call('TIME')
local slot, day = math.floor(tonumber(time[1]) / 5), math.floor(tonumber(time[1]) / 86400)
local windows = tonumber(ARGV[1])
for i = 1, windows do redis.call('HINCRBY', KEYS[i], slot, ARGV[2]); redis.call('EXPIRE', KEYS[i], 120) end
for i = windows + 1, #KEYS do
  local key = KEYS[i] .. ':' .. day
  if redis.call('EXISTS', key) == 1 then redis.call('INCRBY', key, ARGV[3]) end
end
"""
"""ARGV: number of windows; tokens; money. Money that isn't counted yet will be summed from the database, which includes the call."""
logger = logging.getLogger(__name__)


class _Window(NamedTuple):
    key: str
    limit: int
    addition: int
    owner: str
    unit: str


class _Money(NamedTuple):
    key: str
    limit: Decimal
    owner: str
    session_id: UUID | None


SpentSince = Callable[[UUID, UUID | None, datetime], Awaitable[Decimal]]
"""Spending of a workspace, or one of its sessions, since a time, from the database."""


class Counters:
    """A process's access to the counters."""

    def __init__(self, spent_since: SpentSince) -> None:
        self._spent_since = spent_since
        self._valkey: redis.asyncio.Redis | None = None

    async def admit(self, limits: UsageLimits, session_id: UUID) -> None:
        """Count a request, or refuse it. While Valkey or the database is down, a setting decides whether requests pass uncounted.

        Raises RateLimited, LimitReached, RecorderAway.
        """
        windows, money = _windows(limits, session_id), _money(limits, session_id)
        keys = [*(counter.key for counter in windows), *(counter.key for counter in money)]
        arguments: list[Any] = [len(windows)]
        for window in windows:
            arguments += [window.limit, window.addition]
        arguments += [_nano(budget.limit) for budget in money]
        try:
            for _ in range(2 + len(money)):
                kind, index, value = await self._run(ADMIT, keys, arguments)
                if kind == 0:
                    return
                if kind == 1:
                    raise _rate_limited(windows[index - 1], float(value))
                budget = money[index - 1 - len(windows)]
                if kind == 2:
                    raise LimitReached(
                        f"{budget.owner} has reached its limit of ${budget.limit:,.2f} per day. The next day begins at 0:00 UTC.",
                        wait=float(value),
                    )
                await self._begin_day(limits.workspace_id, budget, int(value))
        except (RedisError, OSError, TimeoutError, OperationalError, InterfaceError):
            logger.warning("The limits of workspace %s can't be checked", limits.workspace_id, exc_info=True)
            if settings.GATEWAY_WITHOUT_DATABASE == "refuse":
                raise RecorderAway("Limits can't be checked now. Try again in a moment.") from None

    async def add(self, limits: UsageLimits, session_id: UUID, *, tokens: int, dollars: Decimal) -> None:
        """Count the usage of a stored call."""
        windows = [window for window in _windows(limits, session_id) if not window.addition]
        keys = [*(counter.key for counter in windows), *(counter.key for counter in _money(limits, session_id))]
        if keys and (tokens or dollars):
            try:
                await self._run(ADD, keys, [len(windows), tokens, _nano(dollars)])
            except (RedisError, OSError, TimeoutError):
                logger.warning("Valkey is down: a call of workspace %s isn't counted", limits.workspace_id)

    async def _begin_day(self, workspace_id: UUID, money: _Money, day: int) -> None:
        since = datetime.fromtimestamp(day * 86_400, UTC)
        spent = await self._spent_since(workspace_id, money.session_id, since)
        await self._client().set(f"{money.key}:{day}", _nano(spent), nx=True, ex=SPEND_SECONDS)

    async def _run(self, script: str, keys: list[str], arguments: list[Any]) -> Any:
        return await self._client().eval(script, len(keys), *keys, *arguments)

    def _client(self) -> redis.asyncio.Redis:
        if self._valkey is None:
            self._valkey = redis.asyncio.Redis.from_url(
                str(settings.CACHES["default"]["LOCATION"]),
                socket_timeout=VALKEY_SECONDS,
                socket_connect_timeout=VALKEY_SECONDS,
                decode_responses=True,
            )
        return self._valkey


def _windows(limits: UsageLimits, session_id: UUID) -> list[_Window]:
    scopes = ((limits.workspace_id, "", "This workspace"), (session_id, "session_", "This session"))
    windows = []
    for scope, prefix, owner in scopes:
        for unit, addition in (("requests", 1), ("tokens", 0)):
            limit = getattr(limits, f"{prefix}{unit}_a_minute")
            if limit is not None:
                windows.append(_Window(f"gateway:{unit}:{scope}", limit, addition, owner, unit))
    return windows


def _money(limits: UsageLimits, session_id: UUID) -> list[_Money]:
    spending = []
    if limits.dollars_a_day is not None:
        key = f"gateway:spent:{limits.workspace_id}"
        spending.append(_Money(key, limits.dollars_a_day, "This workspace", None))
    if limits.session_dollars_a_day is not None:
        spending.append(_Money(f"gateway:spent:{session_id}", limits.session_dollars_a_day, "This session", session_id))
    return spending


def _rate_limited(window: _Window, wait: float) -> RateLimited:
    refusal = RateLimited(
        f"{window.owner} has reached its limit of {window.limit:,} {window.unit} per minute.", wait=wait
    )
    refusal.type = window.unit
    return refusal


def _nano(dollars: Decimal) -> int:
    return int((dollars * NANO).to_integral_value(ROUND_UP))
