import { deepEqual, throws } from 'node:assert/strict';
import { describe, it } from 'node:test';

import { parseListed } from './listed-object.ts';

/** As a kubelet's write is noted. */
const managedFields = [
  {
    manager: 'kubelet "1.33"\\',
    operation: 'Update',
    fieldsV1: {
      'f:status': { 'f:podIPs': { '.': {}, 'k:{"ip":"10.0.0.2"}': { '.': {}, 'f:ip': {} } } },
      'f:metadata': { 'f:annotations': { 'f:a]}[{': {}, 'f:\\"]': {} } },
    },
    subresource: 'status',
  },
];
const spec = { containers: [{ name: 'a', args: ['{"managedFields":[1]}'] }] };

function parsed(object: unknown): ReturnType<typeof parseListed> {
  return parseListed(JSON.stringify(object));
}

describe('an object of a list', () => {
  it('comes without managedFields, wherever they are in the metadata', () => {
    const metadata = { name: 'a', labels: { b: 'é\u2028"' } };
    const expected = { value: { metadata, spec }, isShortened: true };
    deepEqual(parsed({ metadata: { ...metadata, managedFields }, spec }), expected);
    deepEqual(parsed({ metadata: { managedFields, ...metadata }, spec }), expected);
    deepEqual(parsed({ spec, metadata: { ...metadata, managedFields: [] } }), expected);
  });

  it('is complete if it has none', () => {
    const object = { metadata: { name: 'a' }, spec };
    deepEqual(parsed(object), { value: object, isShortened: false });
  });

  it('keeps lists of that name that are not in its metadata', () => {
    for (const object of [
      { metadata: { name: 'a' }, spec: { managedFields } },
      { metadata: { name: 'a', of: { managedFields } } },
      { managedFields, metadata: { name: 'a' } },
      { spec: { managedFields }, metadata: { name: 'a', managedFields } },
      { metadata: { name: 'a', annotations: { 'x"managedFields': [1] } } },
      { metadata: null, managedFields },
      [{ managedFields }],
    ]) {
      deepEqual(parsed(object), { value: object, isShortened: false });
    }
  });

  it('is refused if it is cut off or not JSON', () => {
    const text = JSON.stringify({ metadata: { name: 'a', managedFields }, spec });
    for (let length = 0; length < text.length; length++) throws(() => parseListed(text.slice(0, length)));
    throws(() => parseListed(text.replace('"spec"', 'spec')));
  });

  it('may have any text before the fields', () => {
    for (const value of ['\\', '\\\\"', '"managedFields":[', '},"managedFields":[{', '\n']) {
      const metadata = { annotations: { value } };
      deepEqual(parsed({ metadata: { ...metadata, managedFields } }).value, { metadata });
    }
  });
});
