/**
 * node:http, without what importing it takes along: an import reads all exports of a built-in module, and one of node:http's
 * is a WebSocket that loads the whole of fetch on being read, 5 MiB in every process.
 */

export const { Agent, createServer, request, validateHeaderName, validateHeaderValue } =
  process.getBuiltinModule('node:http');
