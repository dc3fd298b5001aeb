"""How much of one asker's replies is processed in a pass of the event loop."""

import asyncio

import pytest

from contract.outgoing.reply_scheduler import PASS_BYTES, PIECE_BYTES, ReplyScheduler

PASSES = 200


@pytest.mark.parametrize("size", [1, 1000, PASS_BYTES // 2 + 1, PIECE_BYTES - 1, PIECE_BYTES])
def test_a_pass_takes_its_share_on_average_whatever_the_size_of_the_pieces(size):
    async def processed() -> int:
        scheduler, total = ReplyScheduler(), 0

        async def read() -> None:
            nonlocal total
            while True:
                await scheduler.turn(size)
                total += size
                if size < 1000:  # a reply that is here already would keep the event loop
                    await asyncio.sleep(0)

        readers = [asyncio.create_task(read()) for _ in range(20)]
        for _ in range(PASSES):
            await asyncio.sleep(0)
        for reader in readers:
            reader.cancel()
        return total

    total = asyncio.run(processed())
    assert total <= (PASSES + 2) * PASS_BYTES + PIECE_BYTES
    assert total >= min((PASSES - 2) * PASS_BYTES, (PASSES - 2) * 20 * size)


def test_one_who_gave_up_takes_nothing():
    async def ask() -> None:
        scheduler = ReplyScheduler()
        await scheduler.turn(PASS_BYTES)
        gone = asyncio.create_task(scheduler.turn(PIECE_BYTES))
        other = asyncio.create_task(scheduler.turn(PIECE_BYTES))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.wait_for(other, 10)

    asyncio.run(ask())
