// What a batch is at, in words and numbers. Pure functions of the API's Batch objects.

import { duration, moment, percent } from "./format.js";

const ENDED = ["completed", "failed", "expired", "cancelled"];

export const isEnded = (batch) => ENDED.includes(batch.status);
export const canCancel = (batch) => ["validating", "in_progress"].includes(batch.status);

const WORDS = {
  validating: "Waiting",
  in_progress: "Running",
  finalizing: "Finishing",
  cancelling: "Cancelling",
  completed: "Completed",
  failed: "Refused",
  expired: "Expired",
  cancelled: "Cancelled",
};
export const statusWord = (batch) => WORDS[batch.status] ?? batch.status;

export const done = (batch) => batch.request_counts.completed + batch.request_counts.failed;

/** 0 to 1; null: it isn't known how many lines there are. */
export const share = (batch) =>
  batch.request_counts.total ? done(batch) / batch.request_counts.total : null;

export const endedAt = (batch) =>
  batch.completed_at ?? batch.cancelled_at ?? batch.failed_at ?? batch.expired_at;

/** Seconds that are left, as the server has it in /metrics; null: not known. */
export function secondsLeft(batch, metrics) {
  if (batch.status !== "in_progress") return null;
  return metrics?.value("barge:batch_seconds_left", { batch: batch.id }) ?? null;
}

/** Lines a second: of a batch that runs, at present; of one that has ended, on average. */
export function linesPerSecond(batch, metrics) {
  const left = secondsLeft(batch, metrics);
  const { total } = batch.request_counts;
  if (left) return (total - done(batch)) / left;
  const seconds = endedAt(batch) - batch.in_progress_at;
  return isEnded(batch) && batch.in_progress_at && seconds > 0 ? done(batch) / seconds : null;
}

/** A line for the list: what is left, or how long it took. */
export function timeText(batch, metrics) {
  const left = secondsLeft(batch, metrics);
  if (left !== null) return `${duration(left)} left`;
  if (isEnded(batch) && batch.in_progress_at)
    return duration(endedAt(batch) - batch.in_progress_at);
  return "";
}

/** When it went through what, for people: [[word, text]]. */
export function moments(batch) {
  const found = [["Created", batch.created_at], ["Began", batch.in_progress_at], ["Ended", endedAt(batch)]];
  return found.map(([word, at]) => [word, at ? moment(at) : "–"]);
}

export const shareText = (batch) => (share(batch) === null ? "" : percent(share(batch)));
