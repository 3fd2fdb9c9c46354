/** The page of `--ui`. It costs nothing until it is opened. */
import type { MountedPart } from '../../lib/apiserver/http/server-options.ts';
import type { InProcessOptions } from '../ui/in-process.ts';

/** Path of the page at the API's address. */
export const pagePath = '/ui';

type Answer = MountedPart['take'];

export interface StandalonePage extends MountedPart {
  /** Starts serving the page. Until it is called, requests are told to retry. */
  serve(options: Omit<InProcessOptions, 'path'>): void;
}

/** @throws {RampartError} `SYSTEM` if the page is missing, or cannot be built. */
export async function standalonePage(): Promise<StandalonePage> {
  const { readPageFiles } = await import('../ui/page-files.ts');
  // Fails at the start rather than when a user first opens the page.
  readPageFiles();
  let options: InProcessOptions | undefined;
  let loaded: Promise<Answer> | undefined;
  return {
    path: pagePath,
    serve: (given) => (options = { ...given, path: `${pagePath}/` }),
    take(request, response, known) {
      if (options === undefined)
        return void response.writeHead(503, { 'Retry-After': '1' }).end('starting\n');
      const { failed } = options;
      loaded ??= load(options);
      loaded.then(
        (answer) => answer(request, response, known),
        (error: unknown) => {
          loaded = undefined;
          failed(error);
          response.writeHead(500).end();
        },
      );
    },
  };
}

async function load(options: InProcessOptions): Promise<Answer> {
  const { answerUi, inProcessUi, pathOf } = await import('../ui/in-process.ts');
  const part = await inProcessUi(options);
  return (request, response, known) => {
    const below = pathOf(request.url).slice(pagePath.length);
    // The page's references are relative to the path with a trailing slash.
    if (below === '') return void response.writeHead(308, { Location: `${pagePath}/` }).end();
    void answerUi(request, response, below, { ...part, known });
  };
}
