// The server's API. The key, if one is wanted, is kept for this tab alone.

const STORED_KEY = "barge-api-key";

export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status; // 0: no answer
  }
}

function errorOf(status, text) {
  try {
    return new ApiError(status, JSON.parse(text).error.message);
  } catch {
    return new ApiError(status, `The server answered with status ${status}.`);
  }
}

export class Api {
  /** `onRefused()` is called when the server wants a key, or another one. */
  constructor(onRefused) {
    this.onRefused = onRefused;
  }

  get key() {
    return sessionStorage.getItem(STORED_KEY) ?? "";
  }
  set key(value) {
    if (value) sessionStorage.setItem(STORED_KEY, value);
    else sessionStorage.removeItem(STORED_KEY);
  }

  #headers() {
    return this.key ? { Authorization: `Bearer ${this.key}` } : {};
  }

  /** A Response whose status is 200. Throws ApiError. */
  async response(path, options = {}) {
    let response;
    try {
      response = await fetch(path, { ...options, headers: { ...this.#headers(), ...options.headers } });
    } catch (problem) {
      if (problem.name === "AbortError") throw problem;
      throw new ApiError(0, "The server can't be reached.");
    }
    if (response.ok) return response;
    if (response.status === 401) this.onRefused();
    throw errorOf(response.status, await response.text().catch(() => ""));
  }

  async get(path) {
    return (await this.response(path)).json();
  }

  async text(path) {
    return (await this.response(path)).text();
  }

  async post(path, body) {
    const headers = { "Content-Type": "application/json" };
    return (await this.response(path, { method: "POST", headers, body: JSON.stringify(body ?? {}) })).json();
  }

  /** ready, loading, failed or lost. */
  async health() {
    try {
      return (await (await fetch("health")).json()).status.replace("ok", "ready");
    } catch {
      return "lost";
    }
  }

  /** Uploads a File as the input of a batch: fetch() would not say how far it is. */
  upload(file, onProgress, signal) {
    const form = new FormData();
    form.append("purpose", "batch");
    form.append("file", file);
    return new Promise((resolve, reject) => {
      const request = new XMLHttpRequest();
      request.open("POST", "v1/files");
      for (const [name, value] of Object.entries(this.#headers())) request.setRequestHeader(name, value);
      request.upload.onprogress = (event) => onProgress(event.loaded, event.total);
      request.onload = () => {
        if (request.status === 200) return resolve(JSON.parse(request.responseText));
        if (request.status === 401) this.onRefused();
        reject(errorOf(request.status, request.responseText));
      };
      request.onerror = () => reject(new ApiError(0, "The upload was cut off: the server can't be reached."));
      request.onabort = () => reject(new DOMException("The upload was stopped.", "AbortError"));
      signal.addEventListener("abort", () => request.abort());
      request.send(form);
    });
  }
}
