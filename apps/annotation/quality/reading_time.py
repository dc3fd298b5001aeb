"""The minimum time to read an item. Faster judgments are hasty, however fast everybody else is."""

from django.db import connection

from apps.annotation.models import Queue

WORDS_A_MINUTE = 1000
"""Reading with comprehension takes 200 to 400 words per minute, skimming up to about 700 (Rayner et al., 2016, “So much to read, so little time”)."""
CHARS_A_WORD = 6
"""Including the space after it."""

# Counts each step's summary line, which the desk shows even if the step is collapsed; for a pair only where the two differ, since the rest is folded.
_CHARS_OF_ITEMS = """
SELECT item.id, sum(length(step.headline) + length(step.result))
FROM annotation_item item
JOIN trajectories_step step ON step.trajectory_id IN (item.a_id, item.b_id)
LEFT JOIN trajectories_step twin
    ON twin.trajectory_id = CASE WHEN step.trajectory_id = item.a_id THEN item.b_id ELSE item.a_id END
    AND twin.index = step.index AND twin.action = step.action AND twin.result = step.result
    AND item.b_id IS NOT NULL
WHERE item.queue_id = %s AND item.judged > 0 AND twin.trajectory_id IS NULL
GROUP BY item.id
"""


def least_seconds(queue: Queue) -> dict[int, float]:
    """Id of each judged item -> seconds to read its steps' lines at `WORDS_A_MINUTE`. Items without steps are left out."""
    with connection.cursor() as cursor:
        cursor.execute(_CHARS_OF_ITEMS, [queue.pk])
        return {item: chars / CHARS_A_WORD * 60 / WORDS_A_MINUTE for item, chars in cursor.fetchall()}
