import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';

import { crdManifest } from '../../lib/kube/crd/manifest.ts';
import type { KubeObject, ResourceType } from '../../lib/kube/object/object.ts';
import { resourceType } from '../../lib/kube/crd/resource.ts';
import { bpfApplicationOf, bpfResources, parentKinds, type ParentObject } from './api.ts';
import { type ApplicationSample, applicationSamples } from './application-samples.fixture.ts';
import { BpfCluster } from './node/node.fixture.ts';

const byteCode = { image: { url: 'registry.example/count:v1' } };
const eth0 = { interfaceSelector: { interfaces: ['eth0'] } };
const xdp = (...links: object[]): object => ({ name: 'f', type: 'XDP', xdp: { links } });
const uprobe = (link: object): object => ({ name: 'f', type: 'UProbe', uprobe: { links: [link] } });
const application = (...programs: object[]): object => ({ nodeSelector: {}, byteCode, programs });

suite('the kinds of bpfman v0.6', () => {
  let cluster: BpfCluster;
  before(async () => void (cluster = await BpfCluster.start({ api: 'v0.6' })));
  after(() => cluster[Symbol.asyncDispose]());

  const typeOf = (kind: string): ResourceType => {
    const resource = bpfResources.find((one) => one.kind === kind);
    assert.ok(resource, kind);
    return resourceType(resource, 'v1alpha1');
  };
  const create = (object: Partial<ApplicationSample> & { readonly kind: string }): Promise<ParentObject> =>
    cluster.client.create(typeOf(object.kind), object as unknown as KubeObject, {
      fieldValidation: 'Strict',
    }) as Promise<ParentObject>;
  const made = (kind: string, name: string, spec: object): Promise<ParentObject> =>
    create({ kind, metadata: { name, ...(kind === 'BpfApplication' && { namespace: 'acme' }) }, spec });

  test('reads all ten samples unchanged, without their status, which only agents write', async () => {
    assert.equal(applicationSamples.length, 10);
    for (const sample of applicationSamples) {
      const { kind, metadata } = sample;
      const object = await create(sample);
      assert.equal(object.status, undefined);
      // Two of them have one name.
      const target = { name: metadata.name, namespace: metadata.namespace };
      await cluster.client.patch(typeOf(kind), target, {
        type: 'merge',
        body: { metadata: { finalizers: null } },
      });
      await cluster.client.delete(typeOf(kind), target);
    }
  });

  test('fields with a default may be left out; an empty `links:` has no links', async () => {
    const { spec } = await made(
      'ClusterBpfApplication',
      'defaults',
      application(
        xdp(eth0),
        { name: 'g', type: 'KProbe', kprobe: { links: null } },
        { name: 'h', type: 'KRetProbe', kretprobe: {} },
      ),
    );
    assert.deepEqual(spec['byteCode'], {
      image: { url: 'registry.example/count:v1', imagePullPolicy: 'IfNotPresent' },
    });
    assert.deepEqual(spec['programs'], [
      xdp({ ...eth0, proceedOn: ['Pass', 'DispatcherReturn'] }),
      { name: 'g', type: 'KProbe', kprobe: {} },
      { name: 'h', type: 'KRetProbe', kretprobe: {} },
    ]);
  });

  test('functions of the kernel may begin with an underscore, and have any length', async () => {
    const links = [{ function: '__x64_sys_execve' }, { function: 'ip' }];
    await made(
      'ClusterBpfApplication',
      'symbols',
      application({ name: 'f', type: 'KProbe', kprobe: { links } }),
    );
  });

  const discovery = (config: object): object => ({
    interfaceSelector: { interfacesDiscoveryConfig: config },
  });
  const pods = { pods: {} };
  const refused: readonly [what: string, spec: object, pattern: RegExp, kind?: string][] = [
    [
      'a type without its member',
      application({ name: 'f', type: 'XDP' }),
      /xdp configuration is required when type is xdp, and forbidden otherwise/,
    ],
    [
      'a member of another type',
      application({ name: 'f', type: 'TCX', tcx: {}, xdp: {} }),
      /xdp configuration is required when type is xdp, and forbidden otherwise/,
    ],
    [
      'TCX without its member',
      application({ name: 'f', type: 'TCX' }),
      /tcx configuration is required when type is TCX/,
    ],
    ['no programs', application(), /spec\.programs.*at least 1/],
    [
      'neither image nor path',
      { ...application(xdp()), byteCode: {} },
      /spec\.byteCode: .*exactly one of image and path is required/,
    ],
    [
      'two selectors of interfaces',
      application(xdp({ interfaceSelector: { interfaces: ['eth0'], primaryNodeInterface: true } })),
      /exactly one of interfaces, primaryNodeInterface and interfacesDiscoveryConfig/,
    ],
    [
      'a primary interface that is none',
      application(xdp({ interfaceSelector: { primaryNodeInterface: false } })),
      /only true is accepted/,
    ],
    ['no interface', application(xdp({ interfaceSelector: { interfaces: [] } })), /at least 1/],
    [
      'a discovery that is off',
      application(xdp(discovery({ allowedInterfaces: ['eth0'] }))),
      /interfaceAutoDiscovery: .*must be true: otherwise no interface is selected/,
    ],
    ['a priority above 1000', application(xdp({ ...eth0, priority: 1001 })), /less than or equal to 1000/],
    [
      'two links of fentry',
      application({
        name: 'f',
        type: 'FEntry',
        fentry: { function: 'f', links: [{ mode: 'Attach' }, { mode: 'Attach' }] },
      }),
      /must have at most 1 items/,
    ],
    [
      'bytes that are none',
      { ...application(xdp()), globalData: { limit: [1, 256] } },
      /spec\.globalData\.limit\[1\].*less than or equal to 255/,
    ],
    [
      'a uprobe without a place',
      application(uprobe({ target: 'libc' })),
      /function or an offset is required/,
    ],
    [
      'a file of the node in a namespaced kind',
      { ...application(xdp()), byteCode: { path: '/x.o' } },
      /path is a file of the node/,
      'BpfApplication',
    ],
    [
      'a link on the node in a namespaced kind',
      application(xdp(eth0)),
      /networkNamespaces: Required/,
      'BpfApplication',
    ],
    [
      'another namespace in a namespaced kind',
      application(xdp({ ...eth0, networkNamespaces: { ...pods, namespace: 'other' } })),
      /unknown field "spec\.programs\[0\]\.xdp\.links\[0\]\.networkNamespaces\.namespace"/,
      'BpfApplication',
    ],
    [
      'a kprobe in a namespaced kind',
      application({ name: 'f', type: 'KProbe' }),
      /spec\.programs\[0\]\.type: Unsupported value/,
      'BpfApplication',
    ],
  ];
  for (const [what, spec, pattern, kind = 'ClusterBpfApplication'] of refused) {
    test(`${what} is refused, and the field is named`, async () => {
      await assert.rejects(made(kind, 'refused', spec), pattern);
    });
  }

  test('both versions have BpfApplication, with another scope; one of them is installed', () => {
    const scopes = Object.values(bpfApplicationOf).map(({ resource }) => crdManifest(resource).spec.scope);
    assert.deepEqual(scopes.toSorted(), ['Cluster', 'Namespaced']);
    assert.equal(bpfResources.filter(({ kind }) => kind === 'BpfApplication').length, 1);
    assert.equal(new Set(parentKinds.map(({ kind, scope }) => `${kind} ${scope}`)).size, parentKinds.length);
  });
});
