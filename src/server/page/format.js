// Numbers as people read them. Pure functions.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const digits = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const clock = new Intl.DateTimeFormat("en", { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const day = new Intl.DateTimeFormat("en", { month: "short", day: "numeric" });

export const count = (n) => whole.format(n);

/** Three digits, or all of those before the point. */
export const number = (n) => (Math.abs(n) >= 100 ? whole : digits).format(n);

export function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  for (; n >= 1000 && at < units.length - 1; ++at) n /= 1024;
  return `${number(n)} ${units[at]}`;
}

/** As disks and links are sold: by powers of ten. */
export function bytesPerSecond(n) {
  const units = ["B/s", "kB/s", "MB/s", "GB/s"];
  let at = 0;
  for (; n >= 1000 && at < units.length - 1; ++at) n /= 1000;
  return `${number(n)} ${units[at]}`;
}

/** 0.8 s, 12 s, 4 min 10 s, 3 h 12 min, 2 d 5 h. */
export function duration(seconds) {
  if (seconds < 9.95) return `${digits.format(Math.max(0, Math.round(seconds * 10) / 10))} s`;
  const s = Math.round(seconds);
  if (s < 60) return `${s} s`;
  const two = (large, unit, small, smallUnit) =>
    small ? `${large} ${unit} ${small} ${smallUnit}` : `${large} ${unit}`;
  if (s < 3600) return two(Math.floor(s / 60), "min", s % 60, "s");
  const minutes = Math.round(s / 60);
  if (minutes < 1440) return two(Math.floor(minutes / 60), "h", minutes % 60, "min");
  const hours = Math.round(s / 3600);
  return two(Math.floor(hours / 24), "d", hours % 24, "h");
}

export function percent(share) {
  const p = share * 100;
  return `${p > 0 && p < 1 ? "<1" : whole.format(p)} %`;
}

/** A moment of Unix time; without the day if that is `now`'s. */
export function moment(seconds, now = Date.now() / 1000) {
  const [at, today] = [new Date(seconds * 1000), new Date(now * 1000)];
  const time = clock.format(at);
  return at.toDateString() === today.toDateString() ? time : `${day.format(at)}, ${time}`;
}

export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;
