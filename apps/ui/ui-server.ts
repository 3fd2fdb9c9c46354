/** The server of `rampart ui`: it listens on this machine only. */
import type { AddressInfo } from 'node:net';

import { messageOf } from '../../lib/errors/errors.ts';
import type { LineFeed } from '../../lib/feed/line-feed.ts';
import { say } from '../../lib/cli/process.ts';
import { listen } from '../../lib/net/listen.ts';
import { createServer } from '../../lib/net/node-http.ts';
import { feedOf } from './finding-feed.ts';
import type { View } from './gate.ts';
import type { PageFiles } from './page-files.ts';
import { LinkGate } from './session.ts';
import { answerUi, pathOf } from './ui-answers.ts';

export interface UiServerOptions {
  /** 0: any free port. */
  readonly port: number;
  readonly page: PageFiles;
  readonly report: View['report'];
  readonly picture: View['picture'];
  /** Each line is the JSON of a `UiFinding`. */
  readonly findings: LineFeed;
}

/** Disposing of it closes its connections. */
export interface UiServer extends AsyncDisposable {
  readonly port: number;
  /** The path of the page: `/...0aZ/`. */
  readonly path: string;
  /** The URL of the page with the token, which works once. */
  readonly link: string;
}

/** @throws {RampartError} `SYSTEM` if the port cannot be listened on. */
export async function serveUi(options: UiServerOptions): Promise<UiServer> {
  const { port: wanted, page, report, picture, findings } = options;
  const gate = new LinkGate({ report, picture, findings: feedOf(findings) });
  const part = { page, gate, failed: (error: unknown) => say(`a request has failed: ${messageOf(error)}`) };
  const server = createServer({ headersTimeout: 10_000, requestTimeout: 10_000 });
  await listen(server, { host: '127.0.0.1', port: wanted }, 'the page');
  const { port } = server.address() as AddressInfo;
  const { path, token } = gate;
  server.on('request', (request, response) => {
    const asked = pathOf(request.url);
    void answerUi(request, response, asked.startsWith(path) ? asked.slice(path.length - 1) : undefined, part);
  });
  return {
    port,
    path,
    link: `http://127.0.0.1:${port}${path}#${token}`,
    async [Symbol.asyncDispose]() {
      const { promise, resolve } = Promise.withResolvers<void>();
      server.close(() => resolve());
      server.closeAllConnections();
      await promise;
    },
  };
}
