// A fixed window of 100 calls in 5 s for each value of the header x-run, which begins with a call. The headers are those of
// express-rate-limit, by path: /none, /legacy, /draft-6, /draft-7, /draft-8.
import { createServer } from "node:http";

const LIMIT = 100;
const WINDOW = 5000;
const windows = new Map();

function headers(style, left, end) {
  const seconds = Math.ceil((end - Date.now()) / 1000);
  switch (style) {
    case "legacy":
      return {
        "X-RateLimit-Limit": LIMIT,
        "X-RateLimit-Remaining": left,
        "X-RateLimit-Reset": Math.ceil(end / 1000),
      };
    case "draft-6":
      return {
        "RateLimit-Policy": `${LIMIT};w=${WINDOW / 1000}`,
        "RateLimit-Limit": LIMIT,
        "RateLimit-Remaining": left,
        "RateLimit-Reset": seconds,
      };
    case "draft-7":
      return {
        "RateLimit-Policy": `${LIMIT};w=${WINDOW / 1000}`,
        RateLimit: `limit=${LIMIT}, remaining=${left}, reset=${seconds}`,
      };
    case "draft-8":
      return {
        RateLimit: `"100-in-5sec"; r=${left}; t=${seconds}`,
        "RateLimit-Policy": `"100-in-5sec"; q=${LIMIT}; w=${WINDOW / 1000}`,
      };
    default:
      return {};
  }
}

createServer((request, response) => {
  const style = request.url.slice(1);
  const key = `${request.headers["x-run"]} ${style}`;
  let window = windows.get(key);
  if (!window || window.end <= Date.now()) {
    window = { used: 0, end: Date.now() + WINDOW };
    windows.set(key, window);
  }
  window.used += 1;
  const stated = headers(style, Math.max(0, LIMIT - window.used), window.end);
  if (window.used <= LIMIT) {
    response.writeHead(200, stated).end("ok\n");
    return;
  }
  if (style !== "none") stated["Retry-After"] = Math.ceil((window.end - Date.now()) / 1000);
  response.writeHead(429, stated).end("Too many requests, please try again later.");
}).listen(Number(process.argv[2]), "127.0.0.1");
