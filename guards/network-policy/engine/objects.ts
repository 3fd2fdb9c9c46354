/** The fields that are read from the objects of the cluster: projections of them suffice. */
import type { Labels, LabelSelectorObject } from '../../../lib/kube/selectors/selectors.ts';

type Maybe<T> = T | null | undefined;

export interface MetadataObject {
  readonly name?: Maybe<string>;
  readonly namespace?: Maybe<string>;
  readonly labels?: Maybe<Labels>;
  readonly annotations?: Maybe<Readonly<Record<string, string>>>;
}

export interface PolicyObject {
  readonly metadata: MetadataObject;
  readonly spec?: Maybe<PolicySpec>;
}

export interface PolicySpec {
  readonly podSelector?: Maybe<LabelSelectorObject>;
  readonly policyTypes?: Maybe<readonly string[]>;
  readonly ingress?: Maybe<readonly IngressRuleObject[]>;
  readonly egress?: Maybe<readonly EgressRuleObject[]>;
}

export interface IngressRuleObject {
  readonly from?: Maybe<readonly PeerObject[]>;
  readonly ports?: Maybe<readonly PortObject[]>;
}

export interface EgressRuleObject {
  readonly to?: Maybe<readonly PeerObject[]>;
  readonly ports?: Maybe<readonly PortObject[]>;
}

export interface PeerObject {
  readonly podSelector?: Maybe<LabelSelectorObject>;
  readonly namespaceSelector?: Maybe<LabelSelectorObject>;
  readonly ipBlock?: Maybe<BlockObject>;
}

export interface BlockObject {
  readonly cidr: string;
  readonly except?: Maybe<readonly string[]>;
}

export interface PortObject {
  readonly protocol?: Maybe<string>;
  /** A number, or the name of a port of the destination. */
  readonly port?: Maybe<number | string>;
  readonly endPort?: Maybe<number>;
}

export interface NamespaceObject {
  readonly metadata: MetadataObject;
}

export interface PodObject {
  readonly metadata: MetadataObject & {
    readonly creationTimestamp?: Maybe<string>;
    readonly deletionTimestamp?: Maybe<string>;
  };
  readonly spec?: Maybe<{
    readonly nodeName?: Maybe<string>;
    readonly hostNetwork?: Maybe<boolean>;
    readonly containers?: Maybe<readonly ContainerObject[]>;
    readonly initContainers?: Maybe<readonly ContainerObject[]>;
  }>;
  readonly status?: Maybe<{
    readonly phase?: Maybe<string>;
    readonly podIP?: Maybe<string>;
    readonly podIPs?: Maybe<readonly { readonly ip?: Maybe<string> }[]>;
    readonly startTime?: Maybe<string>;
  }>;
}

export interface ContainerObject {
  /** For an init container: `Always` makes it a sidecar, which serves as long as the pod runs. */
  readonly restartPolicy?: Maybe<string>;
  readonly ports?: Maybe<
    readonly {
      readonly name?: Maybe<string>;
      readonly containerPort: number;
      readonly protocol?: Maybe<string>;
    }[]
  >;
}

/** `namespace/name`, as PodKey and PolicyKey. */
export function objectKey({ metadata }: PolicyObject | PodObject): string {
  return `${metadata.namespace ?? ''}/${metadata.name ?? ''}`;
}
