/**
 * node:http, loaded without an import: an import reads all exports of a built-in module, and one of them, WebSocket, loads
 * all of fetch when it is read: 5 MiB in every process.
 */

export const { Agent, createServer, request, validateHeaderName, validateHeaderValue } =
  process.getBuiltinModule('node:http');
