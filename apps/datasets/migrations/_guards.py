"""Makes the database refuse changes of frozen versions, tasks in two splits, and held-out tasks in training."""

FROZEN_VERSION = """
CREATE FUNCTION datasets_keep_frozen_version() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.state <> 'frozen' THEN
        RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
    END IF;
    -- Somebody's account may go; what they froze stays.
    IF TG_OP = 'UPDATE' AND to_jsonb(NEW) - 'created_by_id' = to_jsonb(OLD) - 'created_by_id' THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'Version % is frozen: it can be neither changed nor deleted.', OLD.number
        USING ERRCODE = 'integrity_constraint_violation';
END $$;
CREATE TRIGGER frozen_version_stays BEFORE UPDATE OR DELETE ON datasets_version
    FOR EACH ROW EXECUTE FUNCTION datasets_keep_frozen_version();

CREATE FUNCTION datasets_keep_frozen_sources() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    touched uuid := CASE TG_OP WHEN 'INSERT' THEN NEW.version_id ELSE OLD.version_id END;
BEGIN
    IF EXISTS (SELECT FROM datasets_version WHERE id = touched AND state = 'frozen') THEN
        RAISE EXCEPTION 'The version is frozen: which judgements are in it cannot change.'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
END $$;
CREATE TRIGGER frozen_sources_stay BEFORE INSERT OR UPDATE OR DELETE ON datasets_versionpreference
    FOR EACH ROW EXECUTE FUNCTION datasets_keep_frozen_sources();
CREATE TRIGGER frozen_judgements_stay BEFORE INSERT OR UPDATE OR DELETE ON datasets_versionjudgement
    FOR EACH ROW EXECUTE FUNCTION datasets_keep_frozen_sources();
"""

TASK_SPLIT = """
CREATE FUNCTION datasets_keep_task_split() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        RAISE EXCEPTION 'A task stays in its split for ever.' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF NEW.split = 'train' AND (SELECT held_out FROM trajectories_task WHERE id = NEW.task_id) THEN
        RAISE EXCEPTION 'A held-out task cannot be in the training split.'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER task_split_stays BEFORE INSERT OR UPDATE ON datasets_tasksplit
    FOR EACH ROW EXECUTE FUNCTION datasets_keep_task_split();

ALTER TABLE datasets_tasksplit ADD CONSTRAINT split_of_task UNIQUE (task_id, split);
ALTER TABLE datasets_versionpreference ADD CONSTRAINT source_is_in_the_split_of_its_task
    FOREIGN KEY (task_id, split) REFERENCES datasets_tasksplit (task_id, split);
ALTER TABLE datasets_versionjudgement ADD CONSTRAINT judgement_is_in_the_split_of_its_task
    FOREIGN KEY (task_id, split) REFERENCES datasets_tasksplit (task_id, split);
"""

UNDO = """
ALTER TABLE datasets_versionjudgement DROP CONSTRAINT judgement_is_in_the_split_of_its_task;
DROP TRIGGER frozen_judgements_stay ON datasets_versionjudgement;
ALTER TABLE datasets_versionpreference DROP CONSTRAINT source_is_in_the_split_of_its_task;
ALTER TABLE datasets_tasksplit DROP CONSTRAINT split_of_task;
DROP TRIGGER task_split_stays ON datasets_tasksplit;
DROP FUNCTION datasets_keep_task_split();
DROP TRIGGER frozen_sources_stay ON datasets_versionpreference;
DROP FUNCTION datasets_keep_frozen_sources();
DROP TRIGGER frozen_version_stays ON datasets_version;
DROP FUNCTION datasets_keep_frozen_version();
"""
