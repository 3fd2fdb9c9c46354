/** `rampart ui` as a user starts it, and a browser; for tests. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

import type axe from 'axe-core';
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core';

const rampart = join(import.meta.dirname, '../bin/rampart');
const chromiumPath = '/usr/bin/chromium';

/** Why there is no browser; `false` if there is one. */
export function browserObstacle(): string | false {
  return existsSync(chromiumPath) ? false : 'missing packages: apt-get install chromium';
}

/**
 * Without the first one, a spare renderer waits for the next page, which takes a tenth of a browser's CPU time. Chromium heeds only the last
 * such list, so the others repeat what playwright disables for pages of this machine.
 */
const disabledFeatures = [
  'SpareRendererForSitePerProcess',
  ...['AvoidUnnecessaryBeforeUnloadCheckSync', 'DestroyProfileOnBrowserClose', 'PaintHolding'],
  ...['HttpsUpgrades', 'HttpsFirstBalancedModeAutoEnable', 'ThirdPartyStoragePartitioning'],
];

/** Without a display, as root, and without the requests that it makes for itself. */
export function openBrowser(executablePath = chromiumPath): Promise<Browser> {
  return chromium.launch({
    executablePath,
    args: [
      ...['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'],
      ...['--disable-background-networking', '--disable-component-update', '--disable-domain-reliability'],
      ...['--disable-sync', '--no-default-browser-check', '--no-first-run', '--no-pings'],
      '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1',
      '--in-process-gpu',
      `--disable-features=${disabledFeatures.join()}`,
    ],
  });
}

/** In a browser of its own, as far as cookies go. */
export async function openPage(
  browser: Browser,
  link: string,
  options: BrowserContextOptions = {},
): Promise<Page> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  context.setDefaultTimeout(60_000);
  const page = await context.newPage();
  await page.goto(link);
  return page;
}

let axeSource: string | undefined;

/** Faults that axe finds in the page, or in a part of it, at this time. */
export async function violations(page: Page, part = 'html'): Promise<string[]> {
  axeSource ??= readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
  const exists = await page.evaluate(() => 'axe' in globalThis);
  if (!exists) await page.evaluate(axeSource);
  const { violations: found } = await page.evaluate(
    (of) => (globalThis as unknown as { readonly axe: typeof axe }).axe.run(of),
    part,
  );
  return found.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' ')}`);
}

export async function isWithinWidth(page: Page): Promise<boolean> {
  // As text: this file has the types of Node.js where tests outside of ui/ import it.
  return page.evaluate<boolean>('document.documentElement.scrollWidth <= innerWidth');
}

/** One process; killed at the end. */
export class UiProcess implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly #ended: Promise<unknown>;
  readonly link: string;

  private constructor(child: ChildProcess, ended: Promise<unknown>, link: string) {
    this.#child = child;
    this.#ended = ended;
    this.link = link;
  }

  /** Resolves when it has printed its link. @throws if it ends before. */
  static async start(...args: readonly string[]): Promise<UiProcess> {
    const child = spawn(rampart, ['ui', ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
    let stderr = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
    const ended = once(child, 'close');
    const [link] = (await Promise.race([
      once(createInterface(child.stdout), 'line'),
      ended.then(([code]) => {
        throw new Error(`rampart ui ended with ${String(code)}: ${stderr}`);
      }),
    ])) as [string];
    return new UiProcess(child, ended, link);
  }

  /** @returns its exit code. */
  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<number | null> {
    this.#child.kill(signal);
    await this.#ended;
    return this.#child.exitCode;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop('SIGKILL');
  }
}
