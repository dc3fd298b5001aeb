"""Settings by their paths: reading, finding, and replacing them, also within lists."""

from contract.configs import RewardsConfig, run_config_from_json
from contract.configs.fields import field_at
from contract.configs.paths import at, replaced

TERMS = [{"component": "step_cost"}, {"component": "outcome", "weight": 0.5}]
CONFIG = run_config_from_json({"kind": "grpo", "model": {"path": "base"}, "rewards": {"terms": TERMS}})


def test_a_path_leads_into_a_list_by_number():
    assert at(CONFIG, "optimizer.batch_size") == 8
    assert at(CONFIG, "rewards.terms[1].weight") == 0.5
    assert at(CONFIG, "rewards.terms[2].weight") is None
    assert at(CONFIG, "nothing[0].weight") is None


def test_the_setting_at_a_path_is_that_of_its_own_class():
    measure = field_at(CONFIG, "rewards.terms[1].measure")
    assert measure is not None
    assert (measure.title, set(measure.choices)) == ("Outcome measure", {"reward", "success"})
    assert field_at(CONFIG, "rewards.terms[0].measure") is None  # a step cost has none
    assert field_at(CONFIG, "rewards.terms[9].weight") is None
    assert field_at(CONFIG, "") is None


def test_a_value_is_replaced_in_a_copy():
    values = {"beta": 0.1, "rewards": {"terms": TERMS}}
    changed = replaced(values, "rewards.terms[1].measure", "success")
    assert changed == {"beta": 0.1, "rewards": {"terms": [TERMS[0], {**TERMS[1], "measure": "success"}]}}
    assert "measure" not in TERMS[1]
    assert replaced({}, "optimizer.schedule", "linear") == {"optimizer": {"schedule": "linear"}}


def test_the_outcomes_measure_is_found_where_the_outcome_counts():
    assert RewardsConfig().outcome_measure == "rewards.terms[0].measure"
    assert CONFIG.rewards.outcome_measure == "rewards.terms[1].measure"
    only_logged = RewardsConfig.from_json({"terms": [{"component": "format"}, {"component": "outcome", "weight": 0}]})
    assert only_logged.outcome_measure == ""
