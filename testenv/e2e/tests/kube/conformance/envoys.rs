//! The Envoys of the suite's Gateways: one for each, as a pod would be, in a network namespace of its own. The Gateways' ports are
//! 80 and 443, and all listen at the address that `GatewaySettings` name. The suite connects from outside.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Command;

use portcullis_harness::control_plane::ControlPlane;
use portcullis_harness::envoy::{Envoy, EnvoyOptions};
use portcullis_harness::kube::RealKube;
use serde_json::{Value, json};

use super::backends::{items, text};

/// The class of the suite's Gateways.
const CLASS: &str = "portcullis";
const ADMIN_PORT: u16 = 9901;
/// Runs a program behind a pair of interfaces, which ends with it: the arguments are the name of the outer one, its address,
/// the inner address, and the program. It runs in the new namespace, and makes the pair in that of its parent.
const POD: &str = r#"
set -e
outer=$1 outside=$2 inside=$3
shift 3
nsenter --target "$PPID" --net ip link add "$outer" type veth peer name eth0 netns $$
nsenter --target "$PPID" --net ip addr add "$outside/30" dev "$outer"
nsenter --target "$PPID" --net ip link set "$outer" up
ip link set lo up
ip addr add "$inside/30" dev eth0
ip link set eth0 up
ip route add default via "$outside"
exec "$@"
"#;

/// The Envoys, by the UIDs of their Gateways.
pub(super) struct PodEnvoys<'a> {
    kube: &'a RealKube,
    plane: &'a ControlPlane,
    dir: PathBuf,
    running: BTreeMap<String, Envoy>,
    started: u32,
}

/// Whether this process may make network namespaces.
pub(super) fn may_make_pods() -> bool {
    let made = Command::new("unshare").args(["--net", "ip", "link", "set", "lo", "up"]).output();
    made.is_ok_and(|output| output.status.success())
}

impl<'a> PodEnvoys<'a> {
    pub(super) fn new(kube: &'a RealKube, plane: &'a ControlPlane, dir: PathBuf) -> Self {
        Self { kube, plane, dir, running: BTreeMap::new(), started: 0 }
    }

    /// Starts those that are missing, and ends those of Gateways that are gone.
    pub(super) fn follow(&mut self) {
        let gateways = items(self.kube, "/apis/gateway.networking.k8s.io/v1/gateways");
        let own: Vec<&Value> = gateways.iter().filter(|one| one["spec"]["gatewayClassName"] == CLASS).collect();
        let uid = |gateway: &Value| text(gateway, "/metadata/uid").to_owned();
        self.running.retain(|running, _| own.iter().any(|gateway| uid(gateway) == *running));
        for gateway in own {
            if !self.running.contains_key(&uid(gateway)) {
                let envoy = self.start(text(gateway, "/metadata/namespace"), text(gateway, "/metadata/name"));
                self.running.insert(uid(gateway), envoy);
            }
        }
    }

    fn start(&mut self, namespace: &str, name: &str) -> Envoy {
        self.started += 1;
        // Runs beside this one have other addresses, as far as their ids differ.
        let subnet = (std::process::id().wrapping_mul(512).wrapping_add(self.started)) % (1 << 15);
        // For measurements within a machine (RFC 2544): 198.18.0.0/15.
        let first = u32::from(Ipv4Addr::new(198, 18, 0, 0)) + subnet * 4;
        let [outside, inside] = [1, 2].map(|last| Ipv4Addr::from(first + last).to_string());
        let node = format!("{name}-{}", self.started);
        let gateway = format!("{namespace}/{name}");
        let flags = ["--gateway", &gateway, "--gateway-address", &inside];
        let mut bootstrap = self.plane.bootstrap_with(&node, &flags).unwrap();
        bootstrap["admin"]["address"]["socket_address"] = json!({"address": inside, "port_value": ADMIN_PORT});
        let mut options = EnvoyOptions::new(bootstrap);
        options.concurrency = 1;
        let outer = format!("pc{subnet}");
        let wrapper = ["unshare", "--net", "sh", "-c", POD, "pod", &outer, &outside, &inside];
        options.wrapper = wrapper.map(OsString::from).into();
        Envoy::start(&self.dir, &node, &options).unwrap()
    }
}
