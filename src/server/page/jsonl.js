// What can be said of a file before it is uploaded. The server checks every line; this sees at once
// what would be refused anyway.

export const MAX_BYTES = 200 * 2 ** 20;
const ENDPOINTS = ["/v1/chat/completions", "/v1/completions"];
const LINES = 20; // that are looked at
const FIRST_READ = 256 << 10;
const MAX_LINE_BYTES = 16 * 2 ** 20;

// The beginning, up to the end of a line at least.
async function beginning(file) {
  for (let size = FIRST_READ; ; size *= 4) {
    const text = await file.slice(0, size).text();
    const end = text.lastIndexOf("\n");
    if (size >= file.size) return text;
    if (end >= 0) return text.slice(0, end);
    if (size >= MAX_LINE_BYTES) return null;
  }
}

function problemOf(text, expected) {
  let line;
  try {
    line = JSON.parse(text);
  } catch {
    return "isn't valid JSON";
  }
  if (line === null || typeof line !== "object" || Array.isArray(line)) return "isn't a JSON object";
  for (const key of ["custom_id", "method", "url", "body"])
    if (line[key] === undefined || line[key] === null) return `lacks '${key}'`;
  if (!ENDPOINTS.includes(line.url))
    return `asks for '${line.url}'; this server has ${ENDPOINTS.join(" and ")}`;
  if (expected.endpoint && line.url !== expected.endpoint)
    return `asks for '${line.url}', others for '${expected.endpoint}': a batch has one`;
  if (!line.body.model) return "lacks 'body.model'";
  if (expected.model && line.body.model !== expected.model)
    return `asks for the model '${line.body.model}'; this server has '${expected.model}'`;
  expected.endpoint ??= line.url;
  return null;
}

/**
 * {endpoint, problems: [{line, message}]} of a File. `line`: 1-based, null for the whole file.
 * `model`: the one that is served, null if that isn't known.
 */
export async function inspect(file, model) {
  const problems = [];
  const expected = { endpoint: null, model };
  const whole = (message) => ({ endpoint: null, problems: [{ line: null, message }] });
  if (file.size > MAX_BYTES) return whole("The file is larger than 200 MiB: split it.");
  const text = await beginning(file);
  if (text === null) return whole("The first line is longer than 16 MiB: is this a JSONL file?");
  let seen = 0;
  for (const [index, line] of text.replace(/^\uFEFF/, "").split("\n").entries()) {
    if (line.trim() === "") continue;
    if (++seen > LINES) break;
    const message = problemOf(line, expected);
    if (message) problems.push({ line: index + 1, message });
  }
  if (seen === 0) return whole("The file is empty.");
  return { endpoint: expected.endpoint, problems };
}
