/** Paths that are not about objects: discovery, OpenAPI, `/version`, health. */

export interface PlainRequest {
  readonly method: string;
  /** Decoded, without the query: `/apis/apps/v1`. */
  readonly path: string;
  readonly query: URLSearchParams;
  /** Header names in lower case. */
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
}

export interface PlainAnswer {
  readonly code: number;
  /** With at least `content-type` if there is a body. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array;
}

/** Answers the paths it knows; `undefined` for all others. May throw `ApiError`. */
export type PlainRoute = (request: PlainRequest) => PlainAnswer | undefined;
