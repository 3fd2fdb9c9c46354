export interface PodLogOptions {
  /** Follow the log until the container ends. */
  readonly follow: boolean;
  /** Only records written since then: nanoseconds of Unix time. */
  readonly sinceNs: bigint | undefined;
  readonly timestamps: boolean;
  readonly tailLines: number | undefined;
  readonly limitBytes: number | undefined;
}

export interface PodLogRequest {
  readonly namespace: string;
  readonly pod: string;
  /** `spec.nodeName`; never ''. */
  readonly nodeName: string;
  readonly container: string;
  /** As in the status: `containerd://da9e46...`. */
  readonly containerId: string;
  readonly options: PodLogOptions;
  /** Aborted when the client disconnects or the server stops: ends the log. */
  readonly signal: AbortSignal;
}

/**
 * Opens a log. An `ApiError` that it throws goes to the client. The text is read once; ending the iteration releases it.
 */
export type PodLogs = (request: PodLogRequest) => Promise<AsyncIterable<Uint8Array>>;
