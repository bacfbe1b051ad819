use schemars::JsonSchema;
use serde::Deserialize;

/// A source of further servers beside `spec.servers`: exactly one of its fields.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct DiscoverySpec {
    /// The EndpointSlices of a Service in the Kubernetes that stores this object: for kube-apiservers that run there as pods.
    /// `spec.servers` may then be empty.
    pub service: Option<DiscoveryService>,
    /// The EndpointSlice `kubernetes` in the namespace `default` of the upstream itself, which each of its kube-apiservers writes
    /// its address into. It is read with the gateway's own credential, by `spec.servers`, disabled ones included.
    pub kubernetes_service: bool,
    /// The DNS name of SRV records (RFC 2782), as `_https._tcp.apiservers.example.com`, for servers that something but Kubernetes
    /// lists: all addresses behind the targets of the lowest priority that has any. Weights are not used. `spec.servers` may then be
    /// empty.
    pub srv_record: Option<String>,
}

/// A Service whose EndpointSlices hold servers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct DiscoveryService {
    /// The namespace of the Service.
    pub namespace: String,
    /// The name of the Service.
    pub name: String,
    /// The port at which the servers listen, as the EndpointSlices have it: the Service's `targetPort`. With neither `port` nor
    /// `portName`, the slices must have one port only.
    pub port: Option<u32>,
    /// The port's name in the Service, in the place of its number.
    pub port_name: Option<String>,
}
