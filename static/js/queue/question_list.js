// The questions edited by the builder, and their JSON. Validation is in contract/questions.py; this only decides whether cards can represent
// them.

const FIELDS = ["key", "name", "points", "low", "high", "required", "type", "options", "per", "when"];
const OF_TYPE = {
  comparison: ["points"],
  scale: ["points", "low", "high"],
  choice: ["options"],
  choices: ["options"],
  text: [],
};
export const CONDITIONED = ["scale", "choice", "choices"];

export function blank(type = "scale") {
  return {
    key: "",
    name: "",
    type,
    points: 5,
    low: "",
    high: "",
    options: ["Yes", "No"],
    required: true,
    per: "item",
    when: null,
  };
}

/** Must match slug() in contract/questions.py. */
export function slug(name) {
  return name
    .normalize("NFKC")
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\p{M}_\s-]/gu, "")
    .replace(/[-\s]+/g, "-")
    .replace(/^[-_]+|[-_]+$/g, "")
    .slice(0, 60);
}

export function keyOf(question) {
  return question.key || slug(question.name);
}

/** The answers to this question that a condition can name. */
export function answersOf({ type, points, options }) {
  return type === "scale" ? Array.from({ length: points }, (_, index) => index + 1) : options;
}

/** Questions from JSON, or null if cards can't represent it: the server reports what is wrong. `keeps(key)`: whether the key must not change. */
export function parsed(text, keeps) {
  let values;
  try {
    values = text.trim() ? JSON.parse(text) : [];
  } catch {
    return null;
  }
  if (!Array.isArray(values)) return null;
  const questions = [];
  for (const value of values) {
    const question = shaped(value, questions);
    if (!question) return null;
    questions.push(question);
  }
  for (const question of questions) if (question.key === slug(question.name) && !keeps(question.key)) question.key = "";
  return questions;
}

function shaped(value, earlier) {
  if (value === null || typeof value !== "object" || Array.isArray(value)) return null;
  const { type = "scale", options, when } = value;
  const odd =
    Object.keys(value).some((name) => !FIELDS.includes(name)) ||
    !(type in OF_TYPE) ||
    ["key", "name", "low", "high"].some((name) => typeof (value[name] ?? "") !== "string") ||
    !Number.isInteger(value.points ?? 5) ||
    typeof (value.required ?? true) !== "boolean" ||
    !["item", "step"].includes(value.per ?? "item") ||
    (options !== undefined && !(Array.isArray(options) && options.every((each) => typeof each === "string"))) ||
    ["points", "low", "high", "options"].some((name) => name in value && !OF_TYPE[type].includes(name));
  if (odd) return null;
  const question = { ...blank(type), ...value, options: options ?? blank().options, when: null };
  if (!when) return question;
  const of = earlier.find((each) => keyOf(each) === when.question);
  if (!of || !CONDITIONED.includes(of.type) || !Array.isArray(when.any_of)) return null;
  return { ...question, when: { of, any: when.any_of } };
}

/** One question per line. */
export function written(questions) {
  const lines = questions.map((question) => `  ${JSON.stringify(toJson(question))}`);
  return lines.length ? `[\n${lines.join(",\n")}\n]` : "[]";
}

function toJson(question) {
  const { key, name, type, required, per, when } = question;
  const json = { ...(key ? { key } : {}), name, type };
  for (const field of OF_TYPE[type]) if (question[field] !== "") json[field] = question[field];
  json.required = required;
  if (per === "step") json.per = per;
  if (when) json.when = { question: keyOf(when.of), any_of: when.any };
  return json;
}
