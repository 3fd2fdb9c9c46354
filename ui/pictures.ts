/**
 * Makes the pictures of docs/ui.md: the page, with all guards behind it, on a throw-away node. Needs what `scripts/setup test` installs.
 *
 *     node ui/pictures.ts             into docs/images
 *     node ui/pictures.ts DIRECTORY   all of them, each light and dark, at 1280 and 390 pixels, to be examined
 */
import { mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';

import type { Page } from 'playwright-core';

import { startScene } from './scene.fixture.ts';

const [toLookAt] = process.argv.slice(2);
const directory = toLookAt ?? join(dirname(import.meta.dirname), 'docs/images');
const guards = ['file-access', 'file-integrity', 'network-policy', 'policy-audit', 'bpf-programs'] as const;
const schemes = ['light', 'dark'] as const;

await using scene = await startScene();
process.stdout.write(scene.printed);
mkdirSync(directory, { recursive: true });
const page = await scene.browser.newPage();
await page.goto(scene.link);
await page.locator('.finding').first().waitFor();
await page.locator('.finding', { hasText: 'refused' }).first().locator('summary').click();

if (toLookAt === undefined) {
  await show(page, 'light', 1280);
  await take(page, 'ui-light.png');
  await show(page, 'dark', 1280);
  await take(page, 'ui-dark.png');
  await show(page, 'light', 390);
  await take(page, 'ui-phone.png');
} else {
  for (const scheme of schemes) {
    for (const width of [1280, 390]) {
      await show(page, scheme, width);
      // Rows that are out of sight are not drawn.
      await page.setViewportSize({ width, height: 2400 });
      await page.screenshot({ path: join(directory, `page-${scheme}-${width}.png`) });
    }
  }
}
for (const guard of guards) {
  await show(page, 'light', 1280);
  await page.locator('.guard', { hasText: guard }).click();
  await page.locator('#picture .tag', { hasText: guard }).waitFor();
  const drawing = page.locator('#picture .drawing');
  await drawing.waitFor();
  // The items that matter most: a refused flow, a failing policy, a program.
  for (const tone of ['.bad', '[class*=level]', '.warn', '']) {
    const reporting = drawing.locator(`[role=button]${tone}`);
    if ((await reporting.count()) === 0) continue;
    await reporting.first().click();
    break;
  }
  for (const scheme of toLookAt === undefined ? schemes.slice(0, 1) : schemes) {
    for (const width of toLookAt === undefined ? [1280] : [1280, 390]) {
      await show(page, scheme, width);
      const name = toLookAt === undefined ? `ui-${guard}.png` : `${guard}-${scheme}-${width}.png`;
      await page.locator('#picture').screenshot({ path: join(directory, name) });
      process.stdout.write(`${join(directory, name)}\n`);
    }
  }
}

async function show(of: Page, colorScheme: (typeof schemes)[number], width: number): Promise<void> {
  await of.setViewportSize({ width, height: width < 640 ? 844 : 1000 });
  await of.emulateMedia({ colorScheme });
  // The click has scrolled to its row.
  await of.mouse.move(0, 0);
  await of.evaluate(() => scrollTo(0, 0));
}

async function take(of: Page, name: string): Promise<void> {
  await of.screenshot({ path: join(directory, name) });
  process.stdout.write(`${join(directory, name)}\n`);
}
