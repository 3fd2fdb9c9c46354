import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';

import type { Browser, Page } from 'playwright-core';

import { readPageFiles } from '../apps/ui/page-files.ts';
import type { UiReport } from '../apps/ui/report.ts';
import { serveUi, type UiServer } from '../apps/ui/ui-server.ts';
import { LineFeed } from '../lib/feed/line-feed.ts';
import { createServer } from '../lib/net/node-http.ts';
import { listen } from '../lib/net/listen.ts';
import { deepTest, sampled } from '../lib/testing/depth.fixture.ts';
import { sensorSkip } from '../lib/sensor/sensor.fixture.ts';
import { labObstacle } from '../test/lab/obstacle.ts';
import { image, pictures } from './picture.fixture.ts';
import { startScene } from './scene.fixture.ts';
import { browserObstacle, isWithinWidth, openBrowser, openPage, violations } from './ui-process.fixture.ts';

const names = Object.keys(pictures);

/** All guards are there, and nothing is asked of them. */
function report(): UiReport {
  const guards = names.map((name) => ({
    ...({
      name,
      state: 'on',
      objects: 0,
      notGuarded: 0,
      guarded: true,
      on: ['n1'],
      notOn: [],
      operator: null,
    } as const),
  }));
  return {
    ...{ failure: null, who: 'jane@example.com', pictures: names },
    findings: { isLive: true, note: '', missed: 0, hours: [] },
    status: {
      ...{ schema: 'rampart.dev/status/v2', server: 'https://c', time: new Date(0).toISOString() },
      ...{ namespace: null, guarded: true, problems: [], guards, nodes: [], notRead: [] },
      operator: { state: 'unknown', holder: null, renewedSecondsAgo: null },
    },
  };
}

function serve(): Promise<UiServer> {
  const findings = new LineFeed();
  const at = { time: new Date().toISOString(), node: { name: 'n1' }, object: null, policy: null };
  const finding = {
    guard: 'tree',
    kind: 'k',
    severity: 'low',
    verdict: 'changed',
    message: 'A file.',
    ...at,
  };
  const command = { line: 'rampart bpf list', isOnNode: true };
  const decision = { key: 'k', isOpen: true, what: ['changed file', 'changed files'] };
  findings.push(JSON.stringify({ finding, command, decision }));
  return serveUi({
    ...{ port: 0, page: readPageFiles(), findings, report: async () => report() },
    picture: (guard) => Promise.resolve({ picture: pictures[guard] ?? null, failure: null }),
  });
}

/** Goes on with Tab until what has the focus begins with this text or label. */
async function tabTo(page: Page, name: string): Promise<void> {
  const seen: string[] = [];
  for (let left = 60; left > 0; left--) {
    await page.keyboard.press('Tab');
    const focused = await page.evaluate(() => {
      const at = document.activeElement;
      return (at?.getAttribute('aria-label') ?? at?.textContent ?? '').trim();
    });
    if (focused.startsWith(name)) return;
    seen.push(focused.slice(0, 40));
  }
  assert.fail(`Tab does not lead to ${name}: ${seen.join(', ')}`);
}

suite('pictures of guards, in a browser', { skip: browserObstacle() }, () => {
  let browser: Browser;
  before(async () => {
    browser = await openBrowser();
  });
  after(() => browser?.close());

  test('by keyboard alone: a card, a part of its picture, the command; every form is accessible, light and dark', async () => {
    await using server = await serve();
    const page = await openPage(browser, server.link, {
      permissions: ['clipboard-read', 'clipboard-write'],
    });
    await page.getByTitle('Read with the rights of jane@example.com').waitFor();
    await tabTo(page, 'grid');
    await page.keyboard.press('Enter');
    await page.locator('#picture .drawing').waitFor();
    await tabTo(page, 'Close');
    await tabTo(page, 'shop/web to shop/web');
    await page.keyboard.press('ArrowRight');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    const chosen = page.locator('#picture .chosen');
    await chosen.getByText(`shop/${image} to shop/${image}: all that there is to say.`).waitFor();
    await tabTo(page, 'Copy command');
    await page.keyboard.press('Enter');
    await chosen.getByText('Copied').waitFor();
    const copied = await page.evaluate(() => navigator.clipboard.readText());
    assert.equal(copied, "rampart network explain --from 'shop/web' --to shop/db");

    await tabTo(page, 'All');
    await tabTo(page, 'chains');
    await page.keyboard.press('Enter');
    await page.getByText('Nothing matches.').waitFor();
    await tabTo(page, 'All');
    await page.keyboard.press('Enter');
    await page.locator('.finding', { hasText: 'needs a decision' }).waitFor();
    // The row is the next one.
    await tabTo(page, 'needs a decision');
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    await page.locator('.finding').getByText('On node n1:').waitFor();
    await tabTo(page, 'Copy command');
    await page.keyboard.press('Enter');
    await page.locator('.finding').getByText('Copied').waitFor();
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), 'rampart bpf list');

    await page.locator('.as-table summary').click();
    // The rows are made when the browser reports that the table is open, which is after the click.
    await page.locator('.as-table tbody tr').first().waitFor();
    assert.equal(await page.locator('.as-table tbody tr').count(), 9);
    for (const name of sampled(names, 2)) {
      const card = page.locator('.guard', { hasText: name });
      if ((await card.getAttribute('aria-expanded')) !== 'true') await card.click();
      await page.locator(`#picture [role=button].item`).first().waitFor();
      for (const colorScheme of sampled(['light', 'dark'] as const, 1)) {
        await page.emulateMedia({ colorScheme });
        assert.deepEqual(await violations(page, '#picture'), [], `${name}, ${colorScheme}`);
      }
      await page.setViewportSize({ width: 390, height: 844 });
      assert.ok(await isWithinWidth(page), name);
      await page.setViewportSize({ width: 1280, height: 900 });
      assert.ok((await page.locator('#picture').innerHTML()).includes('&lt;img src=x'), name);
    }
    // Names come from others: they are shown, and are nothing else.
    assert.equal(await page.locator('img').count(), 0);
    assert.notEqual(await page.title(), 'run');

    // Nothing is asked for: an example for each guard.
    const starters = page.locator('.starters details');
    assert.equal(await starters.count(), 5);
    await starters.first().locator('summary').click();
    await starters.first().getByRole('button').click();
    await starters.first().getByText('Copied').waitFor();
    assert.match(await page.evaluate(() => navigator.clipboard.readText()), /^kind: KivePolicy$/m);
    assert.deepEqual(await violations(page, '.starters'), []);
  });

  test('a page of another origin can read nothing in a browser with the cookie', async () => {
    await using server = await serve();
    const page = await openPage(browser, server.link);
    await page.locator('.guard').first().waitFor();
    const other = createServer({});
    other.on('request', (_, response) => {
      response.setHeader('Content-Type', 'text/html');
      response.end('<!doctype html><title>another page</title>');
    });
    await listen(other, { host: '127.0.0.1', port: 0 }, 'another page');
    try {
      const { port } = other.address() as { readonly port: number };
      const stranger = await page.context().newPage();
      await stranger.goto(`http://127.0.0.1:${port}/`);
      const answered: number[] = [];
      stranger.on('response', (response) => answered.push(response.status()));
      const top = new URL(server.path, server.link).href;
      const got = await stranger.evaluate(async (from) => {
        const outcomes: string[] = [];
        for (const path of ['status.json', 'findings', 'pictures/grid.json', '']) {
          for (const mode of ['cors', 'no-cors'] as const) {
            const outcome = await fetch(from + path, { mode, credentials: 'include' }).then(
              async (response) => `${response.type} ${await response.text()}`,
              () => 'refused',
            );
            outcomes.push(outcome);
          }
        }
        return outcomes;
      }, top);
      assert.deepEqual([...new Set(got)], ['refused']);
      assert.deepEqual(
        answered.filter((status) => status !== 403),
        [],
      );
      // Nor may it send the browser there.
      await stranger.goto(`http://127.0.0.1:${port}/`);
      const framed = await stranger.evaluate(async (from) => {
        const frame = document.createElement('iframe');
        frame.src = from;
        document.body.append(frame);
        await new Promise((resolve) => frame.addEventListener('load', resolve));
        return frame.contentDocument === null;
      }, top);
      assert.ok(framed);
      assert.equal(await stranger.frames().at(-1)?.locator('.guard').count(), 0);
    } finally {
      other.close();
      other.closeAllConnections();
    }
  });
});

suite(
  'the page with all guards behind it',
  { skip: browserObstacle() || (labObstacle() ?? sensorSkip), timeout: 600_000 },
  () => {
    deepTest('each question, and each picture, light and dark, on a phone, and by keyboard', async () => {
      await using scene = await startScene();
      const page = await openPage(scene.browser, scene.link);
      const answer = (question: string) => page.locator('.answers > div', { hasText: question });
      await answer('guarded')
        .getByText(/^No: 1 of \d+ objects not guarded$/)
        .waitFor();
      await answer('found')
        .getByText(/^\d+ findings, \d+ need a decision$/)
        .waitFor();
      await answer('found')
        .getByText(/changed files?\b.*refused write/)
        .waitFor();
      await answer('missed').getByText('Nothing lost').waitFor();
      await page.locator('#not-guarded').getByText('KivePolicy kivebpf-system/tokens').waitFor();
      await page.getByRole('button', { name: /^needs a decision/ }).click();
      await page.locator('.finding', { hasText: 'needs a decision' }).first().waitFor();
      await page.getByRole('button', { name: /^needs a decision/ }).click();
      for (const [guard, words] of [
        ['network-policy', 'default/frontend to default/db'],
        ['bpf-programs', 'XdpProgram/sample'],
        ['file-integrity', '/etc/passwd has changed'],
        ['policy-audit', 'no-passwords'],
        ['file-access', 'accessed /etc/shadow'],
      ] as const) {
        await page.locator('.guard', { hasText: guard }).click();
        await page.locator('#picture .tag', { hasText: guard }).waitFor();
        await page.locator(`#picture .item[aria-label*="${words}"]`).first().waitFor();
        for (const colorScheme of ['light', 'dark'] as const) {
          await page.emulateMedia({ colorScheme });
          assert.deepEqual(await violations(page), [], `${guard}, ${colorScheme}`);
        }
        await page.setViewportSize({ width: 390, height: 844 });
        assert.ok(await isWithinWidth(page), guard);
        await page.setViewportSize({ width: 1280, height: 900 });
      }
      // Only findings of the guard whose picture is shown are listed.
      assert.equal(await page.locator('.finding .who', { hasText: 'network-policy' }).count(), 0);
      await tabTo(page, 'Close');
      await page.keyboard.press('Enter');
      assert.equal(await page.locator('#picture').count(), 0);
      await page.locator('.chips').getByRole('button', { name: /^All/ }).click();
      await page.getByLabel('Time').selectOption('last hour');
      await page.locator('.finding .who', { hasText: 'network-policy' }).first().waitFor();
      await page.getByLabel('Search findings').fill('<img src=x');
      await page.locator('.finding', { hasText: '<img src=x onerror=alert(1)>' }).first().waitFor();
      assert.equal(await page.locator('img').count(), 0);
    });
  },
);
