/**
 * Makes the pictures of docs/ui.md: the page, with all guards behind it, on a throw-away node. Needs what `scripts/setup test` installs.
 *
 *     node ui/pictures.ts
 */
import { once } from 'node:events';
import { mkdirSync, mkdtempDisposableSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';

import { Shell } from '../test/docs/shell.fixture.ts';
import { startThrowawayNode } from '../test/lab/throwaway-node.ts';
import { openBrowser } from './ui-process.fixture.ts';

const images = join(dirname(import.meta.dirname), 'docs/images');
const pictures = [
  ['ui-light.png', 'light', 1280],
  ['ui-dark.png', 'dark', 1280],
  ['ui-phone.png', 'light', 390],
] as const;

/** Waits until the examples are applied, and all that they ask for is guarded. */
const untilGuarded = `
for try in $(seq 60); do
  kubectl get -f examples/ > /dev/null 2>&1 && rampart status > /dev/null && break
  sleep 1
done`;

/** One finding of each kind, and a policy that cannot be in effect. */
const events = `
db="$(kubectl get pod db -o jsonpath='{.status.podIP}')"
for try in 1 2 3; do in-pod frontend nc -w 1 "$db" 5432 || true; done
in-pod db cat /etc/shadow > /dev/null
tail -n 1 /etc/shadow > /dev/null
echo 'eve:x:0:0::/root:/bin/sh' >> /etc/passwd
kubectl create configmap plain -n shop || true
kubectl create configmap new -n shop --from-literal db-password=secret || true
sed -e 's/name: passwords/name: tokens/' -e 's,/etc/shadow,/run/token,' -e '/host: true/d' examples/file-access.yaml | kubectl apply -f -
sleep 15
`;

await using node = await startThrowawayNode();
await using server = new Shell(node);
await server.start(
  'mkdir -p /var/lib/rampart; cp examples/count.bpf.o /var/lib/rampart; rampart standalone --data /var/lib/rampart -f examples/',
  'serving https',
);
await using shell = new Shell(node);
await shell.run('export KUBECONFIG=/var/lib/rampart/kubeconfig');
await shell.run(untilGuarded);
process.stdout.write((await shell.run(events)).text);

const ui = node.spawn(['rampart', 'ui', '--data', '/var/lib/rampart'], {
  stdio: ['ignore', 'pipe', 'inherit'],
});
if (ui.stdout === null) throw new Error('rampart ui has no output');
const [link] = (await once(createInterface(ui.stdout), 'line')) as [string];

// The browser is in the network of the node, too.
using directory = mkdtempDisposableSync(join(tmpdir(), 'rampart-pictures-'));
const chromium = join(directory.path, 'chromium');
writeFileSync(chromium, `#!/bin/sh\nexec '${node.enterPath}' /usr/bin/chromium "$@"\n`, { mode: 0o755 });
const browser = await openBrowser(chromium);
mkdirSync(images, { recursive: true });
const page = await browser.newPage();
await page.goto(link);
await page.locator('.finding').first().waitFor();
await page.locator('.finding', { hasText: 'refused' }).first().locator('summary').click();
for (const [name, colorScheme, width] of pictures) {
  await page.setViewportSize({ width, height: width < 640 ? 844 : 1000 });
  await page.emulateMedia({ colorScheme });
  // The click has scrolled to its row.
  await page.mouse.move(0, 0);
  await page.evaluate(() => scrollTo(0, 0));
  await page.screenshot({ path: join(images, name) });
  process.stdout.write(`docs/images/${name}\n`);
}
await browser.close();
