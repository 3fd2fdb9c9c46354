import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';

import { guards } from '../apps/guards.ts';
import manifest from '../package.json' with { type: 'json' };
import { TemporaryDirectory } from '../lib/testing/temporary-directory.fixture.ts';
import { extras } from './deploy-choice.ts';
import { kustomize, type Manifest, objectsIn } from './kustomize.ts';
import { manifestCommand, manifestText, uninstallText } from './manifest.ts';

const deploy = join(import.meta.dirname, '../deploy');
const names = guards.map(({ name }) => name);
const image = 'registry.example/team/rampart:1.2.3';

const byName = (objects: readonly Manifest[]): ReadonlyMap<string, Manifest> =>
  new Map(
    objects
      .map((object): [string, Manifest] => {
        const { namespace = '', name } = object.metadata;
        return [`${object.kind} ${namespace}/${name}`, object];
      })
      .toSorted(([one], [other]) => (one < other ? -1 : 1)),
  );

function imagesOf(objects: readonly Manifest[]): Set<string> {
  return new Set([...JSON.stringify(objects).matchAll(/"image":"([^"]*)"/g)].map(([, found = '']) => found));
}

suite('deploy/ as one file', () => {
  test('has the objects of deploy/, with the image that was given', () => {
    const objects = objectsIn(manifestText({ guards: names, extras: [], image: 'rampart:0.1.0' }));
    assert.deepEqual(byName(objects), byName(kustomize(deploy)));
    const renamed = objectsIn(manifestText({ guards: names, extras: [], image }));
    assert.deepEqual(imagesOf(renamed), new Set([image]));
    const digest = `sha256:${'0'.repeat(64)}`;
    for (const [given, wanted] of [
      ['registry.example:5000/rampart', 'registry.example:5000/rampart:0.1.0'],
      [`registry.example/rampart@${digest}`, `registry.example/rampart@${digest}`],
    ] as const) {
      const found = objectsIn(manifestText({ guards: ['network-policy'], extras: [], image: given }));
      assert.deepEqual(imagesOf(found), new Set([wanted]));
    }
  });

  test('is read by kubectl unchanged, namespaces and definitions first', (t) => {
    const text = manifestText({ guards: names, extras, image });
    const objects = objectsIn(text);
    const kinds = [...new Set(objects.map(({ kind }) => kind))];
    assert.deepEqual(kinds.slice(0, 3), ['Namespace', 'CustomResourceDefinition', 'ServiceAccount']);
    using directory = new TemporaryDirectory();
    writeFileSync(directory.at('rampart.yaml'), text);
    writeFileSync(directory.at('kustomization.yaml'), 'resources: [rampart.yaml]\n');
    const { error, status, stdout, stderr } = spawnSync('kubectl', ['kustomize', directory.path], {
      encoding: 'utf8',
      maxBuffer: 2 ** 26,
    });
    if (error !== undefined) return t.skip('needs kubectl');
    assert.equal(status, 0, stderr);
    assert.deepEqual(byName(objectsIn(stdout)), byName(objects));
  });

  test('without an image, it is that of the version in package.json', () => {
    for (const directory of [deploy, join(deploy, 'uninstall')])
      assert.deepEqual(imagesOf(kustomize(directory)), new Set([`rampart:${manifest.version}`]));
  });

  test('definitions of reports have no label by which they would be removed with Rampart', () => {
    const text = manifestText({ guards: ['policy-audit'], extras: ['policy-reports'], image });
    const reports = objectsIn(text).filter(({ metadata }) => /policyreports/.test(metadata.name));
    assert.equal(reports.length, 2);
    for (const { metadata } of reports)
      assert.equal(metadata.labels?.['app.kubernetes.io/part-of'], undefined);
  });

  test('the Job that removes Rampart has the image too', () => {
    const objects = objectsIn(uninstallText(image));
    assert.deepEqual(imagesOf(objects), new Set([image]));
    assert.deepEqual(
      byName(objectsIn(uninstallText('rampart:0.1.0'))),
      byName(kustomize(join(deploy, 'uninstall'))),
    );
  });

  test('the command writes the file, and refuses what is not there', () => {
    using directory = new TemporaryDirectory();
    const run = (...args: string[]) => {
      const file = join(import.meta.dirname, 'manifest.ts');
      const { status, stdout, stderr } = spawnSync(process.execPath, [file, ...args], { encoding: 'utf8' });
      return { status, stdout, stderr };
    };
    const file = directory.at('mine.yaml');
    const chosen = ['--guards', 'network-policy,file-access', '--with', 'monitoring'];
    const written = { status: 0, stdout: `${file}\n`, stderr: '' };
    assert.deepEqual(run('--image', image, ...chosen, '--output', file), written);
    assert.equal(
      readFileSync(file, 'utf8'),
      manifestText({ guards: ['file-access', 'network-policy'], extras: ['monitoring'], image }),
    );
    const next = 'Name an image that all nodes can pull, such as registry.example/rampart:0.1.0';
    assert.deepEqual(run(), { status: 2, stdout: '', stderr: `manifest: --image is missing. ${next}\n` });
    for (const [args, message] of [
      [['--image', 'Registry/rampart'], /^"Registry\/rampart" is not a reference/],
      [['--image', image, '--guards', 'doors'], /^there is no guard "doors"\. Use any of file-access, /],
      [['--image', image, '--with', 'more'], /^there is no component "more"\. Use any of /],
      [['--image', image, '--uninstall', '--with', 'monitoring'], /^--uninstall removes all/],
      [['--imag', image], /^Unknown option '--imag'/],
    ] as const)
      assert.throws(() => manifestCommand(args), { message });
  });
});
