/** What the guard leaves behind. Its sensor pins nothing: the kernel keeps nothing of it once the agent has ended. */
import { managedSelector } from '../../guard/managed-by.ts';
import { defineLeftovers } from '../../guard/leftovers.ts';
import { namespaces } from '../../lib/kube/object/object.ts';
import { type KiveData, kiveDataNamespace, kiveDataType, kiveNodeStatusType, kivePolicyType } from './api.ts';
import { dataHolds, nodeOf, policyHolds } from './kive-data.ts';

export const fileAccessLeftovers = defineLeftovers({
  finalizers: [
    { type: kivePolicyType, finalizers: policyHolds },
    {
      type: kiveDataType,
      finalizers: dataHolds,
      ofNode: (nodeName) => ({ includes: (object) => nodeOf(object as KiveData) === nodeName }),
    },
  ],
  objects: [{ type: kiveDataType }, { type: kiveNodeStatusType }],
  namespaces: [
    {
      type: namespaces,
      fieldSelector: `metadata.name=${kiveDataNamespace}`,
      labelSelector: managedSelector,
    },
  ],
});
