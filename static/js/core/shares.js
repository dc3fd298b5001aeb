// <div data-shares>: shows each arm's share of the sessions while weights are typed.
import { attach } from "./attach.js";

attach("[data-shares]", (fields, signal) => {
  const arms = [...fields.querySelectorAll("[data-arm]")].map((arm) => ({
    isCanary: arm.dataset.arm === "canary",
    policy: arm.querySelector("select"),
    weight: arm.querySelector("input"),
    share: arm.querySelector("[data-share]"),
  }));

  function show() {
    const weights = arms.map(({ policy, weight }) => (policy.value ? Math.max(0, weight.valueAsNumber || 0) : 0));
    const canary = arms.findIndex(({ isCanary }) => isCanary);
    const ofAll = weights[canary] / 100;
    const total = weights.reduce((sum, weight, index) => (index === canary ? sum : sum + weight), 0);
    arms.forEach(({ share, isCanary }, index) => {
      const part = isCanary ? ofAll : total && (weights[index] / total) * (1 - ofAll);
      share.textContent = part ? `${Math.round(1000 * part) / 10} %` : "";
    });
  }

  for (const name of ["input", "change"]) fields.addEventListener(name, show, { signal });
  show();
});
