/**
 * Debian's docker-registry on a free port of loopback, for tests and demonstrations: plain, with TLS, with a password; and what
 * pushes artifacts to it. The program is fetched into `.cache/debian`, and nothing is installed.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { buffer } from 'node:stream/consumers';

import { request as httpRequest } from '../net/node-http.ts';
import { debianPackage } from '../../scripts/debian-packages.ts';
import { digestOf } from './digest.ts';
import { mediaTypes } from './manifest.ts';
import type { Credentials } from './registry.ts';

interface RegistryFixtureOptions {
  /** With a certificate of its own for 127.0.0.1 and localhost: {@link RegistryFixture.authority}. */
  readonly tls?: boolean;
  /** Requires the password of {@link registryUser}. */
  readonly password?: boolean;
}

/** Whom a registry with a password lets in. */
export const registryUser: Credentials = { username: 'alice', password: 'looking-glass' };
/** By bcrypt, as the registry wants it. */
const htpasswd = 'alice:$2y$05$abcdefghijklmnopqrstuuJgsLp8mzA2OM1oHfZyy3XiDAkw5qjd2\n';

interface PushedLayer {
  readonly mediaType: string;
  readonly bytes: Uint8Array;
  readonly annotations?: Readonly<Record<string, string>>;
}

export interface PushedArtifact {
  readonly layers: readonly PushedLayer[];
  /** Default: `{}`. */
  readonly config?: unknown;
  /** Default: that of an OCI image. */
  readonly configMediaType?: string;
  readonly artifactType?: string;
  readonly annotations?: Readonly<Record<string, string>>;
}

export interface Pushed {
  readonly digest: string;
  readonly sizeBytes: number;
  /** By tag: `127.0.0.1:5000/team/policy:v1`. */
  readonly reference: string;
}

/** The media types of policies as WebAssembly. */
const wasmMediaTypes = {
  config: 'application/vnd.wasm.config.v1+json',
  layer: 'application/vnd.wasm.content.layer.v1+wasm',
} as const;

/** Whoever starts one disposes it: the process ends, and what it kept is gone. */
export class RegistryFixture implements AsyncDisposable {
  readonly #directory = mkdtempSync(join(tmpdir(), 'rampart-registry-'));
  readonly #options: RegistryFixtureOptions;
  readonly #program: string;
  #child: ChildProcess | undefined;
  #host = '';

  private constructor(program: string, options: RegistryFixtureOptions) {
    this.#program = program;
    this.#options = options;
    if (options.tls === true) this.#makeCertificate();
    writeFileSync(join(this.#directory, 'htpasswd'), htpasswd);
  }

  /** Its program, fetched where it is missing. For those who start one in a network that no archive is reached from: before that. */
  static async fetch(): Promise<string> {
    const { root } = await debianPackage('docker-registry-2.8', { signal: AbortSignal.timeout(120_000) });
    return join(root, 'usr/bin/docker-registry');
  }

  static async start(options: RegistryFixtureOptions = {}): Promise<RegistryFixture> {
    const fixture = new RegistryFixture(await RegistryFixture.fetch(), options);
    try {
      await fixture.resume();
      return fixture;
    } catch (error) {
      await fixture[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** `127.0.0.1:40663`. It stays over {@link pause} and {@link resume}. */
  get host(): string {
    return this.#host;
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** Its content, as its storage driver lays it out: `docker/registry/v2/blobs/sha256/...`. */
  get dataDirectory(): string {
    return join(this.#directory, 'data');
  }

  /** PEM of the authority of its certificate. */
  get authority(): string {
    return readFileSync(join(this.#directory, 'tls.crt'), 'utf8');
  }

  /** Ends the process; what was pushed stays on disk. */
  async pause(): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    child.ref();
    child.kill('SIGKILL');
    await once(child, 'exit');
  }

  /** Starts the process again, at the same address. */
  async resume(): Promise<void> {
    const configuration = join(this.#directory, 'config.json');
    const { tls = false, password = false } = this.#options;
    const file = (name: string): string => join(this.#directory, name);
    // JSON is YAML.
    writeFileSync(
      configuration,
      JSON.stringify({
        version: '0.1',
        log: { level: 'info', formatter: 'json', accesslog: { disabled: true } },
        storage: { filesystem: { rootdirectory: this.dataDirectory }, delete: { enabled: true } },
        http: {
          addr: this.#host === '' ? '127.0.0.1:0' : this.#host,
          secret: 'none',
          ...(tls && { tls: { certificate: file('tls.crt'), key: file('tls.key') } }),
        },
        ...(password && { auth: { htpasswd: { realm: 'test', path: file('htpasswd') } } }),
      }),
    );
    const child = spawn(this.#program, ['serve', configuration], {
      stdio: ['ignore', 'ignore', 'pipe'],
      env: { OTEL_TRACES_EXPORTER: 'none' },
    });
    this.#child = child;
    // Not to outlive a test that was ended.
    const end = (): void => void child.kill('SIGKILL');
    process.once('exit', end);
    child.once('exit', () => process.off('exit', end));
    const said: string[] = [];
    for await (const line of createInterface({ input: child.stderr })) {
      said.push(line);
      const listening = /listening on ([^\s",]+)/.exec(line)?.[1];
      if (listening === undefined) continue;
      this.#host = listening;
      child.stderr.resume();
      child.unref();
      return;
    }
    throw new Error(`the registry does not start:\n${said.join('\n')}`);
  }

  /** @returns where it is now: `127.0.0.1:5000/team/policy:v1` and its digest */
  async push(repository: string, tag: string, artifact: PushedArtifact): Promise<Pushed> {
    const config = Buffer.from(JSON.stringify(artifact.config ?? {}));
    await this.pushBlob(repository, config);
    for (const { bytes } of artifact.layers) await this.pushBlob(repository, bytes);
    return this.pushManifest(repository, tag, {
      schemaVersion: 2,
      mediaType: mediaTypes.ociManifest,
      ...(artifact.artifactType !== undefined && { artifactType: artifact.artifactType }),
      config: {
        mediaType: artifact.configMediaType ?? 'application/vnd.oci.image.config.v1+json',
        digest: digestOf(config),
        size: config.length,
      },
      layers: artifact.layers.map(({ mediaType, bytes, annotations }) => ({
        mediaType,
        digest: digestOf(bytes),
        size: bytes.length,
        ...(annotations && { annotations }),
      })),
      ...(artifact.annotations && { annotations: artifact.annotations }),
    });
  }

  /** A policy as WebAssembly, as its tools push them. */
  async pushWasm(repository: string, tag: string, module: Uint8Array): Promise<Pushed> {
    return this.push(repository, tag, {
      configMediaType: wasmMediaTypes.config,
      layers: [{ mediaType: wasmMediaTypes.layer, bytes: module }],
    });
  }

  /** An index of what was pushed before, by platform: `linux/amd64`. */
  async pushIndex(
    repository: string,
    tag: string,
    platforms: Readonly<Record<string, Pushed>>,
  ): Promise<Pushed> {
    return this.pushManifest(repository, tag, {
      schemaVersion: 2,
      mediaType: mediaTypes.ociIndex,
      manifests: Object.entries(platforms).map(([platform, { digest, sizeBytes }]) => {
        const [os, architecture] = platform.split('/');
        return { mediaType: mediaTypes.ociManifest, digest, size: sizeBytes, platform: { os, architecture } };
      }),
    });
  }

  /** Any manifest, also one that lies. Its `mediaType` is sent along. */
  async pushManifest(
    repository: string,
    tag: string,
    manifest: { readonly mediaType: string; readonly [key: string]: unknown },
  ): Promise<Pushed> {
    const body = Buffer.from(JSON.stringify(manifest));
    await this.#call('PUT', `/v2/${repository}/manifests/${tag}`, 201, body, manifest.mediaType);
    return {
      digest: digestOf(body),
      sizeBytes: body.length,
      reference: `${this.#host}/${repository}:${tag}`,
    };
  }

  async pushBlob(repository: string, bytes: Uint8Array): Promise<string> {
    const digest = digestOf(bytes);
    const location = await this.#call('POST', `/v2/${repository}/blobs/uploads/`, 202);
    const url = new URL(location, `http://${this.#host}`);
    url.searchParams.set('digest', digest);
    await this.#call('PUT', `${url.pathname}${url.search}`, 201, bytes, 'application/octet-stream');
    return digest;
  }

  /** Removes a manifest, with its tags. */
  async remove(repository: string, digest: string): Promise<void> {
    await this.#call('DELETE', `/v2/${repository}/manifests/${digest}`, 202);
  }

  /** Where the registry keeps the bytes of a digest, to change them behind its back. */
  blobPath(digest: string): string {
    const hex = digest.replace('sha256:', '');
    return join(this.dataDirectory, 'docker/registry/v2/blobs/sha256', hex.slice(0, 2), hex, 'data');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.pause();
    rmSync(this.#directory, { recursive: true, force: true });
  }

  /** @returns the `Location` of the answer */
  async #call(
    method: string,
    path: string,
    wanted: number,
    body?: Uint8Array,
    type?: string,
  ): Promise<string> {
    const { tls = false, password = false } = this.#options;
    const [host, port] = this.#host.split(':');
    const request = (tls ? httpsRequest : httpRequest)({
      host,
      port,
      method,
      path,
      agent: false,
      headers: {
        ...(type !== undefined && { 'content-type': type }),
        'content-length': body?.length ?? 0,
      },
      ...(tls && { ca: this.authority }),
      ...(password && { auth: `${registryUser.username}:${registryUser.password}` }),
    });
    request.end(body);
    const [response] = (await once(request, 'response')) as [IncomingMessage];
    const said = await buffer(response);
    if (response.statusCode !== wanted) {
      throw new Error(`${method} ${path}: ${response.statusCode} and not ${wanted}: ${said.toString()}`);
    }
    return response.headers.location ?? '';
  }

  #makeCertificate(): void {
    execFileSync(
      'openssl',
      [
        ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2'],
        ...['-subj', '/CN=registry', '-addext', 'subjectAltName=IP:127.0.0.1,DNS:localhost'],
        ...['-keyout', 'tls.key', '-out', 'tls.crt'],
      ],
      { cwd: this.#directory, stdio: ['ignore', 'ignore', 'pipe'] },
    );
  }
}
