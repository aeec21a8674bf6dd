// A program with the generated types: it runs a job, reads its returns, and expects a problem where there is nothing.
import createClient from "openapi-fetch";
import type { paths } from "./api.d.ts";

const api = createClient<paths>({
  baseUrl: new URL(process.env.API!).origin,
  headers: { Authorization: `Bearer ${process.env.TOKEN}` },
});

function must<T>(what: string, answer: { data?: T; error?: unknown }): T {
  if (answer.data === undefined) throw new Error(`${what}: ${JSON.stringify(answer.error)}`);
  return answer.data;
}

const peels = must("peels", await api.GET("/api/v1/peels"));
console.log("peels:", peels.peels.map((p) => p.id).join(" "));
const job = must("job", await api.POST("/api/v1/jobs", { body: { target: "web-*", function: "test.ping" } }));
for (;;) {
  const now = must("status", await api.GET("/api/v1/jobs/{jid}", { params: { path: { jid: job.jid } } }));
  if (now.status === "complete") break;
  if (now.status === "failed") throw new Error("the job failed");
}
const returns = must("returns", await api.GET("/api/v1/jobs/{jid}/returns", { params: { path: { jid: job.jid } } }));
console.log("returns:", returns.rows.length);
const missing = await api.GET("/api/v1/peels/{id}", { params: { path: { id: "nobody" } } });
if (missing.error === undefined) throw new Error("a peel that is not there was found");
console.log("missing:", missing.error.status, missing.error.detail);
