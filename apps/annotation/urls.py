"""URLs of queues and of the desk."""

from django.urls import path

from apps.annotation.api import bulk as bulk_api
from apps.annotation.api import comments as comment_api
from apps.annotation.api import desk as desk_api
from apps.annotation.api import guidelines as guidelines_api
from apps.annotation.api import imported_judgments as adopting_api
from apps.annotation.api import items as items_api
from apps.annotation.api import judges as judge_api
from apps.annotation.api import queue_settings as queue_settings_api
from apps.annotation.api import queue_states as queue_states_api
from apps.annotation.api import queues as rest
from apps.annotation.api import reviews as review_api
from apps.annotation.views import (
    bulk,
    comments,
    continuations,
    corrections,
    desk,
    imported_judgments,
    judges,
    layouts,
    quality,
    queues,
    reviews,
    settings,
)

app_name = "annotation"

urlpatterns = [
    path("queues/", queues.queues, name="queues"),
    path("queues/new/", queues.new_queue, name="new_queue"),
    path("queues/new/preview/", queues.preview, name="preview_queue"),
    path("queues/of-judgments/", imported_judgments.new_adopted, name="new_adopted"),
    path("queues/of-judgments/preview/", imported_judgments.preview_adopted, name="preview_adopted"),
    path("imports/<uuid:batch_id>/judgments/", imported_judgments.adoptable, name="adoptable"),
    path("queues/questions/preview/", queues.preview_questions, name="preview_questions"),
    path("queues/guidelines/preview/", queues.preview_guidelines, name="preview_guidelines"),
    path("queues/<uuid:queue_id>/", queues.queue, name="queue"),
    path("queues/<uuid:queue_id>/items/", queues.items, name="items"),
    path("queues/<uuid:queue_id>/progress/", queues.progress, name="progress"),
    path("queues/<uuid:queue_id>/agreement/", quality.agreement, name="agreement"),
    path("queues/<uuid:queue_id>/quality/", quality.quality, name="quality"),
    path("queues/<uuid:queue_id>/quality/mine/", quality.mine, name="mine"),
    path("queues/<uuid:queue_id>/people/<uuid:annotator_id>/", quality.person, name="person"),
    path("queues/<uuid:queue_id>/review/", reviews.next_review, name="review"),
    path("queues/<uuid:queue_id>/review/<int:item_id>/", reviews.review, name="review_item"),
    path("queues/<uuid:queue_id>/review/<int:item_id>/rows/<int:start>/", reviews.rows, name="review_rows"),
    path("queues/<uuid:queue_id>/review/<int:item_id>/<str:side>/<int:index>/", reviews.part, name="review_part"),
    path("queues/<uuid:queue_id>/items/<int:item_id>/remarks/<uuid:annotator_id>/", reviews.remark, name="remark"),
    path("queues/<uuid:queue_id>/reorder/", judges.reorder, name="reorder"),
    path("queues/<uuid:queue_id>/machines/", judges.judges, name="judges"),
    path("queues/<uuid:queue_id>/machines/<uuid:judge_id>/prompt/", judges.prompt, name="judge_prompt"),
    *(
        path(
            f"queues/<uuid:queue_id>/machines/<uuid:judge_id>/{action}/",
            judges.steer_judge,
            {"action": action},
            name=f"{action}_judge",
        )
        for action in judges.STEERING
    ),
    path("queues/<uuid:queue_id>/settings/", settings.settings, name="settings"),
    path("queues/<uuid:queue_id>/settings/gold/", settings.draw_gold, name="draw_gold"),
    path("queues/<uuid:queue_id>/items/<int:item_id>/", queues.item, name="queue_item"),
    path("queues/<uuid:queue_id>/items/<int:item_id>/known/", settings.known, name="known"),
    *(
        path(
            f"queues/<uuid:queue_id>/people/<uuid:annotator_id>/{action}/",
            settings.ask,
            {"action": action},
            name=f"{action}_annotator",
        )
        for action in settings.ASKS
    ),
    path("queues/<uuid:queue_id>/guidelines/", queues.guidelines, name="guidelines"),
    path("queues/<uuid:queue_id>/pause/", queues.steer, {"action": "pause"}, name="pause"),
    path("queues/<uuid:queue_id>/resume/", queues.steer, {"action": "resume"}, name="resume"),
    path("queues/<uuid:queue_id>/close/", queues.steer, {"action": "close"}, name="close"),
    path("trajectories/<uuid:trajectory_id>/judgments/", queues.judgments_of, name="judgments_of"),
    path("trajectories/<uuid:trajectory_id>/comments/", comments.comments_of, name="comments_of"),
    path("trajectories/<uuid:trajectory_id>/comments/new/", comments.comment, name="comment"),
    path("label-all/", bulk.label, name="label_all"),
    path("queues/<uuid:queue_id>/assign/", bulk.assign, name="assign"),
    path("bulk-acts/<uuid:act_id>/undo/", bulk.undo, name="undo_bulk_act"),
    path("comments/<uuid:comment_id>/remove/", comments.remove_comment, name="remove_comment"),
    path("mentions/<int:mention_id>/read/", comments.read_mention, name="read_mention"),
    path("desk/<uuid:queue_id>/", desk.desk, name="desk"),
    path("desk/<uuid:queue_id>/next/", desk.next_item, name="next"),
    path("desk/<uuid:queue_id>/undo/", desk.undo, name="undo"),
    path("desk/<uuid:queue_id>/leave/", desk.leave, name="leave"),
    *(
        path(f"desk/<uuid:queue_id>/layout/{action}/", layouts.act, {"action": action}, name=f"layout_{action}")
        for action in layouts.ACTS
    ),
    path("desk/items/<uuid:assignment_id>/", desk.item, name="item"),
    path("desk/items/<uuid:assignment_id>/rows/<int:start>/", desk.rows, name="rows"),
    path("desk/items/<uuid:assignment_id>/<str:side>/<int:index>/", desk.part, name="part"),
    path("desk/items/<uuid:assignment_id>/judge/", desk.judge, name="judge"),
    path("desk/items/<uuid:assignment_id>/draft/", desk.draft, name="draft"),
    path("desk/items/<uuid:assignment_id>/skip/", desk.skip, name="skip"),
    path("desk/items/<uuid:assignment_id>/flag/", desk.flag, name="flag"),
    path("desk/items/<uuid:assignment_id>/steps/<int:index>/better/", corrections.form, name="better"),
    path("desk/items/<uuid:assignment_id>/steps/<int:index>/better/check/", corrections.check, name="check_better"),
    path(
        "desk/items/<uuid:assignment_id>/steps/<int:index>/alternatives/",
        continuations.alternatives,
        name="alternatives",
    ),
    path("desk/items/<uuid:assignment_id>/steps/<int:index>/run-on/", continuations.run_on, name="run_on"),
    path(
        "desk/items/<uuid:assignment_id>/continuations/<uuid:continuation_id>/",
        continuations.status,
        name="continuation",
    ),
    path("desk/items/<uuid:assignment_id>/keep/", desk.keep, name="keep"),
]

api = [
    path("imports/<uuid:batch_id>/judgments", adopting_api.ImportJudgmentsView.as_view(), name="import_judgments"),
    path("trajectories/<uuid:trajectory_id>/comments", comment_api.CommentsView.as_view(), name="trajectory_comments"),
    path("bulk-acts", bulk_api.BulkActsView.as_view(), name="bulk_acts"),
    path("bulk-acts/<uuid:act_id>/undo", bulk_api.UndoView.as_view(), name="bulk_act_undo"),
    path("bulk-labels", bulk_api.BulkLabelsView.as_view(), name="bulk_labels"),
    path("queues/<uuid:queue_id>/assign", bulk_api.AssignView.as_view(), name="queue_assign"),
    path("comments/<uuid:comment_id>/remove", comment_api.RemoveCommentView.as_view(), name="comment_remove"),
    path("mentions", comment_api.MentionsView.as_view(), name="mentions"),
    path("mentions/<int:mention_id>/read", comment_api.ReadMentionView.as_view(), name="mention_read"),
    path("queues", rest.QueuesView.as_view(), name="queues"),
    path("queues/<uuid:queue_id>", rest.QueueView.as_view(), name="queue"),
    path("queues/<uuid:queue_id>/settings", queue_settings_api.QueueSettingsView.as_view(), name="queue_settings"),
    path("queues/<uuid:queue_id>/pause", queue_states_api.PauseQueueView.as_view(), name="queue_pause"),
    path("queues/<uuid:queue_id>/resume", queue_states_api.ResumeQueueView.as_view(), name="queue_resume"),
    path("queues/<uuid:queue_id>/close", queue_states_api.CloseQueueView.as_view(), name="queue_close"),
    path("queues/<uuid:queue_id>/guidelines", guidelines_api.GuidelinesView.as_view(), name="queue_guidelines"),
    path("queues/<uuid:queue_id>/gold", items_api.GoldView.as_view(), name="queue_gold"),
    path("queues/<uuid:queue_id>/items", items_api.ItemsView.as_view(), name="queue_items"),
    path("queues/<uuid:queue_id>/items/<int:item_id>/known", items_api.KnownView.as_view(), name="queue_item_known"),
    path("queues/<uuid:queue_id>/undo", desk_api.UndoView.as_view(), name="queue_undo"),
    path("assignments/<uuid:assignment_id>/skip", desk_api.SkipView.as_view(), name="assignment_skip"),
    path("queues/<uuid:queue_id>/next", desk_api.NextView.as_view(), name="queue_next"),
    path("assignments/<uuid:assignment_id>/judgment", desk_api.JudgmentView.as_view(), name="assignment_judgment"),
    path("queues/<uuid:queue_id>/preferences", rest.PreferencesView.as_view(), name="queue_preferences"),
    path("queues/<uuid:queue_id>/inspections", rest.InspectionsView.as_view(), name="queue_inspections"),
    path("queues/<uuid:queue_id>/ratings", rest.RatingsView.as_view(), name="queue_ratings"),
    path("queues/<uuid:queue_id>/disputed", review_api.DisputedView.as_view(), name="queue_disputed"),
    path("queues/<uuid:queue_id>/adjudications", review_api.AdjudicationsView.as_view(), name="queue_adjudications"),
    path("queues/<uuid:queue_id>/judges", judge_api.JudgesView.as_view(), name="queue_judges"),
    path("queues/<uuid:queue_id>/judges/<uuid:judge_id>", judge_api.JudgeView.as_view(), name="queue_judge"),
    path("queues/<uuid:queue_id>/judges/<uuid:judge_id>/pause", judge_api.PauseView.as_view(), name="pause_judge"),
    path("queues/<uuid:queue_id>/judges/<uuid:judge_id>/resume", judge_api.ResumeView.as_view(), name="resume_judge"),
]
