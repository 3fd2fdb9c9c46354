import assert from 'node:assert/strict';
import { EventEmitter, once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { after, before, suite, test } from 'node:test';

import type { Browser, Page } from 'playwright-core';

import { readPageFiles } from '../apps/ui/page-files.ts';
import type { UiReport } from '../apps/ui/report.ts';
import { serveUi } from '../apps/ui/ui-server.ts';
import { Standalone } from '../apps/standalone/standalone.fixture.ts';
import { findingLine } from '../guard/stream/finding.ts';
import { clusterAdmissionPolicyType } from '../guards/policy-audit/api.ts';
import { clusterPolicy } from '../guards/policy-audit/scanner/scan.fixture.ts';
import { serveFeed } from '../lib/feed/feed-server.ts';
import { LineFeed } from '../lib/feed/line-feed.ts';
import { configMaps, namespaces } from '../lib/kube/object/object.ts';
import { isDeep, sampled, scaled } from '../lib/testing/depth.fixture.ts';
import { TemporaryDirectory } from '../lib/testing/temporary-directory.fixture.ts';
import { image } from './picture.fixture.ts';
import {
  browserObstacle,
  isWithinWidth,
  openBrowser,
  openPage,
  UiProcess,
  violations,
} from './ui-process.fixture.ts';

/** The answer to the question with these words. */
function answer(page: Page, question: string) {
  return page.locator('.answers > div', { hasText: question }).locator('.answer');
}

/** Scrolls through 10,000 rows by this many pixels a frame. */
async function frames(page: Page, pixels: number): Promise<string> {
  const times = await page.evaluate(async (by) => {
    const between: number[] = [];
    let last = performance.now();
    for (let left = 300; left > 0; left--) {
      scrollBy(0, by);
      await new Promise((resolve) => requestAnimationFrame(resolve));
      const now = performance.now();
      between.push(now - last);
      last = now;
    }
    return between.toSorted((a, b) => a - b);
  }, pixels);
  const at = (part: number): string => (times[Math.floor((times.length - 1) * part)] ?? 0).toFixed(1);
  const rows = await page.locator('.finding').count();
  return `median ${at(0.5)}, 95 % ${at(0.95)}, longest ${at(1)}, of ${times.length}; ${rows} rows then`;
}

suite('the page of rampart ui, in a browser', { skip: browserObstacle() }, () => {
  let browser: Browser;
  before(async () => {
    browser = await openBrowser();
  });
  after(() => browser?.close());

  const open = (link: string): Promise<Page> => openPage(browser, link);

  test('what rampart standalone guards and finds, while one looks; then it is killed', async () => {
    await using one = new Standalone();
    await one.start('--guards', 'policy-audit');
    await one.client.create(namespaces, { metadata: { name: 'shop' } });
    const create = (name: string) => one.client.create(configMaps, { metadata: { namespace: 'shop', name } });
    await using ui = await UiProcess.start('--data', one.at('data'));
    const page = await open(ui.link);
    const asked = new Set<string>();
    page.on('request', (request) => asked.add(new URL(request.url()).origin));
    await answer(page, 'guarded').filter({ hasText: 'Nothing is asked for yet' }).waitFor();
    assert.equal(new URL(page.url()).hash, '');

    const wish = { expression: "object.metadata.name == 'good'", message: image };
    await one.client.create(clusterAdmissionPolicyType, clusterPolicy('named', wish));
    await answer(page, 'guarded').filter({ hasText: 'Yes: 1 object' }).waitFor();
    await page.locator('.guard', { hasText: 'policy-audit' }).filter({ hasText: '✓ guarded' }).waitFor();
    await answer(page, 'missed').filter({ hasText: 'Nothing lost' }).waitFor();
    await assert.rejects(create('worse'), /denied the request/);
    const row = page.locator('.finding', { hasText: 'rejected' });
    await row.waitFor();
    await answer(page, 'found').filter({ hasText: '1 finding, 1 needs a decision' }).waitFor();
    await row.locator('summary').click();
    await row.locator('.more p', { hasText: image }).waitFor();
    // Names come from others: they are shown, and are nothing else.
    assert.equal(await page.locator('img').count(), 0);
    assert.notEqual(await page.title(), 'run');

    // The panel behind its card shows the audited objects.
    await create('good');
    await page.locator('.guard', { hasText: 'policy-audit' }).click();
    await page.locator('#picture .item[aria-label^="named in shop"]').waitFor();

    await page.getByLabel('Search findings').fill('no such');
    await page.getByText('Nothing matches.').waitFor();
    await page.getByLabel('Search findings').fill('SHOP/WORSE');
    assert.equal(await page.locator('.finding').count(), 1);
    await page.getByLabel('Search findings').fill('');
    for (const colorScheme of sampled(['light', 'dark'] as const, 1)) {
      await page.emulateMedia({ colorScheme });
      assert.deepEqual(await violations(page), [], colorScheme);
    }
    await page.setViewportSize({ width: 390, height: 844 });
    assert.ok(await isWithinWidth(page));
    assert.deepEqual(await violations(page), [], 'phone');

    // A browser that was sent the link later, and a page of another origin.
    const late = await open(ui.link);
    await late.getByRole('alert').filter({ hasText: 'the link was used before' }).waitFor();
    const { origin } = new URL(ui.link);
    const refused = await late.evaluate(
      (url) => fetch(url).then((response) => response.status),
      new URL('status.json', ui.link).href,
    );
    assert.equal(refused, 401);
    await page.reload();
    await row.waitFor();
    assert.deepEqual([...asked], [origin]);

    await one.stop('SIGKILL');
    await page.getByRole('status').filter({ hasText: 'not live' }).waitFor();
    await answer(page, 'guarded').filter({ hasText: 'No: 1 of 1 object not guarded' }).waitFor();
    await answer(page, 'missed').filter({ hasText: 'Nothing is seen now' }).waitFor();
    await page.locator('#not-guarded').getByText('Start rampart standalone with --data').waitFor();
    assert.equal(await ui.stop(), 0);
    await page.getByRole('alert').filter({ hasText: 'rampart ui does not answer' }).waitFor();
  });

  const findings = scaled(10_000, 1000);
  test(`${findings} findings: a part is drawn, and more as one scrolls`, async (t) => {
    const written = (count: number): string => count.toLocaleString('en');
    using directory = new TemporaryDirectory();
    const feed = new LineFeed({ maxLines: 10_000, maxUnits: 16 * 1024 * 1024 });
    const push = (at: number): void =>
      feed.push(
        findingLine({
          ...{ guard: 'file-access', kind: 'KiveAlert', severity: 'high', verdict: 'allowed', policy: null },
          ...{ time: new Date().toISOString(), node: { name: 'n1' } },
          object: { kind: 'Pod', namespace: 'shop', name: `web-${at}` },
          message: `/usr/bin/cat accessed /etc/shadow in shop/web-${at}.`,
        }),
      );
    for (let at = 1; at <= findings; at++) push(at);
    await using _server = await serveFeed(feed, directory.at('alerts.sock'));
    const kubeconfig = directory.at('kubeconfig');
    const named = (what: object) => [{ name: 'c', ...what }];
    writeFileSync(
      kubeconfig,
      JSON.stringify({
        clusters: named({ cluster: { server: 'http://127.0.0.1:1' } }),
        contexts: named({ context: { cluster: 'c' } }),
        'current-context': 'c',
      }),
    );
    await using ui = await UiProcess.start('--data', directory.path);
    const page = await open(ui.link);
    await page.getByText(`${written(findings)} listed`).waitFor();
    const first = await page.locator('.finding').first().innerText();
    assert.ok(first.includes(`shop/web-${findings}`), first);
    assert.equal(await page.locator('.finding').count(), 100);
    const more = page.getByRole('button', { name: `Show more of ${written(findings - 100)} findings` });
    await more.scrollIntoViewIfNeeded();
    await page.locator('.finding').nth(100).waitFor();
    push(findings + 1);
    await page.locator('.finding', { hasText: `shop/web-${findings + 1}` }).waitFor();
    if (isDeep) {
      // As by the wheel, then as by dragging the bar.
      for (const pixels of [120, 900])
        t.diagnostic(`ms between frames, ${pixels} pixels each: ${await frames(page, pixels)}`);
    }
    // Made of findings alone, so it is shown without an API, too.
    await page.locator('.guard', { hasText: 'file-access' }).click();
    await page.locator('#picture').getByText('No access was found in the last 24 hours.').waitFor();
    // No API answers there.
    await answer(page, 'guarded').filter({ hasText: 'Unknown' }).waitFor();
  });

  test('findings that come all the time do not keep the status away; what may not be read is shown', async () => {
    const feed = new LineFeed();
    const came = new EventEmitter();
    let number = 0;
    const report: UiReport = {
      failure: null,
      who: null,
      pictures: [],
      findings: { isLive: true, note: '', missed: 2, hours: [] },
      status: {
        ...{ schema: 'rampart.dev/status/v2', server: 'https://c', time: new Date().toISOString() },
        ...{ namespace: null, guarded: false, problems: [], guards: [] },
        operator: { state: 'unknown', holder: null, renewedSecondsAgo: null },
        notRead: [{ resource: 'leases in rampart-system', why: `not for ${image}` }],
        nodes: [
          {
            ...{ name: 'n1', agent: 'running', agentRenewed: null, agentPod: null },
            guards: { g: { state: 'running', reason: '', mode: 'slow', blindSpots: ['denied opens'] } },
            losses: [{ guard: 'g', what: 'accesses', count: 3 }],
          },
        ],
      },
    };
    await using server = await serveUi({
      port: 0,
      page: readPageFiles(),
      findings: feed,
      report: async () => {
        for (let left = 100; left > 0; left--) await once(came, 'finding');
        return report;
      },
      picture: () => undefined,
    });
    const pushing = setInterval(() => {
      const at = {
        time: new Date().toISOString(),
        node: { name: `n${number++}` },
        object: null,
        policy: null,
      };
      const finding = { guard: 'g', kind: 'k', severity: 'low', verdict: 'seen', message: 'Seen.', ...at };
      feed.push(JSON.stringify({ finding, command: null, decision: null }));
      came.emit('finding');
    }, 10);
    try {
      const page = await open(server.link);
      await page.getByText(`You may not read leases in rampart-system: not for ${image}`).waitFor();
      await answer(page, 'guarded').filter({ hasText: 'Unknown' }).waitFor();
      await answer(page, 'missed').filter({ hasText: '5 lost' }).waitFor();
      assert.equal(await page.locator('#losses dd').last().innerText(), '3');
    } finally {
      clearInterval(pushing);
    }
  });
});
