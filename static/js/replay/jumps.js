// Keys that jump between notable steps: errors, rewards, judged steps, points where other runs diverge.
import { bind } from "../core/keys.js";
import { toast } from "../core/toast.js";

export function jumps(replay, { steps, filters, current, go, signal }) {
  function jump(by, is, none) {
    const target =
      by > 0
        ? steps.find((step) => step.index > current() && is(step))
        : steps.findLast((step) => step.index < current() && is(step));
    if (target) go(target.index);
    else toast(none);
    return target?.index;
  }

  function pair(key, what, name, none) {
    const run = (by) => () => jump(by, filters[name], `No ${by > 0 ? "later" : "earlier"} step ${none}.`);
    bind({ keys: key, label: `Next ${what}`, group: "Replay", run: run(1), repeat: true, signal });
    bind({ keys: key.toUpperCase(), label: `Previous ${what}`, group: "Replay", run: run(-1), repeat: true, signal });
  }

  pair("e", "error", "error", "has an error");
  pair("r", "reward", "reward", "has a reward");
  pair("l", "judged step", "judged", "has its own judgment");

  // Fetched on demand only: it reads the actions of every other run of the task.
  let pending = null;
  const loadDivergences = () =>
    (pending ??= fetch(replay.dataset.partingsUrl, { credentials: "same-origin", signal })
      .then((response) => (response.ok ? response.json() : Promise.reject(new Error(response.status))))
      .then(({ partings, others }) => ({ at: new Map(partings), others })));

  async function divergence(by) {
    try {
      const { at, others } = await loadDivergences();
      if (!others) return toast("This task has no other trajectory.");
      const describe = (index) =>
        `${at.get(index)} of ${others} other trajector${others === 1 ? "y" : "ies"} with the same steps so far act${at.get(index) === 1 ? "s" : ""} differently`;
      const none = `No ${by > 0 ? "later" : "earlier"} step where other trajectories diverge from this one${at.has(current()) ? `; here ${describe(current())}` : ""}.`;
      const to = jump(by, (step) => at.has(step.index), none);
      if (to !== undefined) toast(`Here ${describe(to)}.`);
    } catch {
      pending = null;
      if (!signal.aborted) toast("The server didn't respond. Try again.", { tone: "bad" });
    }
  }

  bind({ keys: "d", label: "Next divergence", group: "Replay", run: () => divergence(1), signal });
  bind({ keys: "D", label: "Previous divergence", group: "Replay", run: () => divergence(-1), signal });
}
