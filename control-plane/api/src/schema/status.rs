use serde_json::{Value, json};

use crate::bounds::{MAX_NAMES, MAX_TARGETS, MAX_VIRTUAL_IPS};
use crate::status::{MAX_GATEWAYS, MAX_MESSAGE, MAX_UNHEALTHY};

/// `metav1.Condition`'s patterns.
const CONDITION_TYPE: &str =
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";
const CONDITION_REASON: &str = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$";

/// The schema of `status`; descriptions are Markdown. Unknown fields stay, so that an older definition does not prune a newer
/// control plane's status.
pub(super) fn status() -> Value {
    json!({
        "type": "object",
        "description": "The status of the object. The control plane writes it and can write it again from nothing: backups do not need it.",
        "x-kubernetes-preserve-unknown-fields": true,
        "properties": {
            "observedGeneration": generation("The `metadata.generation` that the status is about."),
            "contentHash": {
                "type": "string",
                "description": "A hash of the Envoy resources that are served of the object, the same at every replica; unset if \
                    none are.",
            },
            "names": {
                "type": "array",
                "description": "The host names and virtual IPs that the object owns. As long as they are listed here, no other object gets them.",
                "maxItems": MAX_NAMES + MAX_VIRTUAL_IPS + 1,
                "items": {"type": "string"},
            },
            "instance": {
                "type": "string",
                "description": "The `Instance` that the object belongs to, or will at the end of a hand-over; unset if it belongs to \
                    none. As long as it is named here and selects the object, no other one gets it.",
                "maxLength": 63,
            },
            "conditions": {
                "type": "array",
                "description": "`Accepted`: the object is valid and owns its names. `Programmed`: every gateway that is \
                    connected has acknowledged the configuration. `Ready`: every gateway that reports has a healthy endpoint for each policy. \
                    `ServersDiscovered`, of objects that discover servers: they are those that the source names now. `ShadowDiffers`, \
                    of objects with a shadow: gateways have judged requests otherwise by it. `TokenKeysCurrent`, of objects whose keys of \
                    tokens the control plane reads: they are those that servers and issuers show now. `LimitsShared`, of objects with \
                    limits of all gateways: every gateway that reports has its part of them. `portcullis.dev/DispatchPolicyAffected` and \
                    those of the other kinds of policies: one is attached to the object and in effect.",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
                "items": condition("`Accepted`, `Programmed` or `Ready`."),
            },
            "gateways": {
                "type": "array",
                "description": "Gateways: first those that reject the configuration, then those that have not answered.",
                "maxItems": MAX_GATEWAYS * 4,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": gateway(),
            },
            "moreGateways": {
                "type": "integer", "format": "int64", "minimum": 0,
                "description": "Number of gateways that are not listed.",
            },
        },
    })
}

/// The same of settings.
pub(super) fn settings_status() -> Value {
    json!({
        "type": "object",
        "description": "The status of the object. The control plane writes it and can write it again from nothing: backups do not need it.",
        "x-kubernetes-preserve-unknown-fields": true,
        "properties": {
            "observedGeneration": generation("The `metadata.generation` that the conditions are about."),
            "controlPlane": text("The control plane that wrote the status: its namespace and the name of its Lease."),
            "conditions": {
                "type": "array",
                "description": "`Accepted`: the object is valid, and the control plane uses it. Otherwise the message names the fields, \
                    and the version that was accepted last stays in use; reason `NotUsed`: the control plane uses other settings.",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
                "items": condition("`Accepted`."),
            },
            "defaults": {
                "type": "array",
                "description": "Fields of the version in use that are not set, with the values that hold.",
                "x-kubernetes-list-type": "atomic",
                "maxItems": 64,
                "items": {
                    "type": "object",
                    "description": "A field that is not set.",
                    "properties": {
                        "field": text("The path of the field."),
                        "value": text("The value that holds."),
                    },
                },
            },
        },
    })
}

/// The same of an instance.
pub(super) fn instance_status() -> Value {
    json!({
        "type": "object",
        "description": "The status of the object. The control plane writes it and can write it again from nothing: backups do not need it.",
        "x-kubernetes-preserve-unknown-fields": true,
        "properties": {
            "observedGeneration": generation("The `metadata.generation` that the conditions are about."),
            "conditions": {
                "type": "array",
                "description": "`Accepted`: the object is valid. `Conflicted`: it selects gateways or clusters that belong to another \
                    instance, which the message names; it does not get these. `Ready`: all its Envoys have acknowledged what belongs to it; \
                    without any, and without `UpstreamClusters`, all those of its Gateways.",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
                "items": condition("`Accepted`, `Conflicted` or `Ready`."),
            },
            "gateways": count("Number of Gateways of the Gateway API that belong to it."),
            "clusters": count("Number of `UpstreamClusters` that belong to it."),
            "envoys": count("Number of its Envoys that are connected to the control plane which writes the status."),
            "gatewayEnvoys": count("Number of Envoys of its Gateways that are connected there."),
        },
    })
}

/// The same of a `KubernetesUpstream`.
pub(super) fn upstream_status() -> Value {
    json!({
        "type": "object",
        "description": "The status of the object. The control plane writes it and can write it again from nothing: backups do not need it.",
        "x-kubernetes-preserve-unknown-fields": true,
        "properties": {
            "conditions": {
                "type": "array",
                "description": "`Accepted`: the object is valid. `ResolvedRefs`: everything that it refers to is there, and can be used. \
                    `Ready`: a Gateway that is `Programmed` leads requests there; the message names such Gateways, and servers that their \
                    Envoys find unhealthy. False if each of them reports and none finds a healthy one.",
                "maxItems": 8,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
                "items": condition("`Accepted`, `ResolvedRefs` or `Ready`."),
            },
        },
    })
}

/// The same of policies, as GEP-713 has it: an entry for each target.
pub(super) fn policy_status() -> Value {
    json!({
        "type": "object",
        "description": "The status of the object. The control plane writes it and can write it again from nothing: backups do not need it.",
        "x-kubernetes-preserve-unknown-fields": true,
        "properties": {
            "ancestors": {
                "type": "array",
                "description": "An entry for each target, and those of other controllers.",
                "maxItems": MAX_TARGETS,
                "x-kubernetes-list-type": "atomic",
                "items": {
                    "type": "object",
                    "description": "A target, as a controller judges the policy there.",
                    "required": ["ancestorRef", "controllerName", "conditions"],
                    "properties": {
                        "ancestorRef": {
                            "type": "object",
                            "description": "The target.",
                            "required": ["name"],
                            "properties": {
                                "group": text("The API group."),
                                "kind": text("The kind."),
                                "namespace": text("The namespace; none of an object without one."),
                                "name": text("The name."),
                                "sectionName": text("The name of a listener."),
                                "port": {"type": "integer", "format": "int32", "description": "A port, by other controllers."},
                            },
                        },
                        "controllerName": text("The controller; `portcullis.dev/gateway-controller` is this one."),
                        "conditions": {
                            "type": "array",
                            "description": "`Accepted`: the policy is valid and holds at this target. Otherwise the reason is `Invalid`, \
                                `Conflicted` (the message names the policy that holds), `TargetNotFound`, `RefNotPermitted` or \
                                `UnsupportedValue`. `Programmed` is there, and `False` with reason `Overridden`, if something else says \
                                what holds.",
                            "maxItems": 8,
                            "x-kubernetes-list-type": "map",
                            "x-kubernetes-list-map-keys": ["type"],
                            "items": condition("`Accepted` or `Programmed`."),
                        },
                    },
                },
            },
        },
    })
}

/// As `metav1.Condition` has it; `types` names the types of an object's own.
fn condition(types: &str) -> Value {
    json!({
        "type": "object",
        "description": "A condition of the object.",
        "required": ["type", "status", "lastTransitionTime", "reason", "message"],
        "properties": {
            "type": {
                "type": "string", "maxLength": 316, "pattern": CONDITION_TYPE,
                "description": types,
            },
            "status": {"type": "string", "enum": ["True", "False", "Unknown"], "description": "Status of the condition."},
            "reason": {
                "type": "string", "minLength": 1, "maxLength": 1024, "pattern": CONDITION_REASON,
                "description": "The reason in one word, for programs.",
            },
            "message": {
                "type": "string", "maxLength": 32768,
                "description": format!("The reason for people, at most {MAX_MESSAGE} characters, without secrets."),
            },
            "lastTransitionTime": {
                "type": "string", "format": "date-time", "description": "The time of the last change of `status`.",
            },
            "observedGeneration": generation("The `metadata.generation` that the condition is about."),
        },
    })
}

fn gateway() -> Value {
    json!({
        "type": "object",
        "description": "One gateway.",
        "required": ["name"],
        "properties": {
            "name": {"type": "string", "description": "The Envoy's node id."},
            "state": text("`Acknowledged`, `Pending` or `Refused`; `OtherReplica` if only another replica of the control plane knows it."),
            "message": text("Envoy's reason for rejecting the configuration."),
            "healthyEndpoints": count("Number of endpoints that are healthy for the gateway; unset if it does not report."),
            "endpoints": count("Number of endpoints; unset if the gateway does not report."),
            "unhealthy": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["server"],
                "maxItems": MAX_UNHEALTHY,
                "description": format!("Servers that get no requests from the gateway, at most {MAX_UNHEALTHY} of them."),
                "items": unhealthy(),
            },
        },
    })
}

fn unhealthy() -> Value {
    json!({
        "type": "object",
        "description": "A server that gets no requests from the gateway.",
        "required": ["server"],
        "properties": {
            "server": text("Address or DNS name, and port."),
            "reason": text(
                "`HealthCheckFailed`; `HealthCheckTimedOut`; `Ejected`, after several requests in a row failed; \
                `NotChecked`, before its first health check has ended.",
            ),
            "since": {
                "type": "string", "format": "date-time", "description": "Time at which the gateway first saw the server unhealthy, as far as its agent remembers.",
            },
        },
    })
}

fn count(description: &str) -> Value {
    json!({"type": "integer", "format": "int64", "minimum": 0, "description": description})
}

fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

fn generation(description: &str) -> Value {
    json!({"type": "integer", "format": "int64", "minimum": 0, "description": description})
}
