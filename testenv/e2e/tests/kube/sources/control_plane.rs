use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use portcullis_harness::control_plane::ControlPlane;
use portcullis_harness::envoy::{Envoy, EnvoyOptions};
use portcullis_harness::rundir::RunDir;
use portcullis_harness::wait;
use serde_json::Value;

/// How long a change may take to arrive.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// A control plane with a source, and an Envoy that follows it.
pub(crate) struct ControlPlaneUnderTest {
    pub(crate) plane: ControlPlane,
    pub(crate) envoy: Envoy,
}

impl ControlPlaneUnderTest {
    pub(crate) fn start(run: &RunDir, name: &str, flags: &[&str]) -> Self {
        let dir = run.make_dir(name).unwrap();
        let plane = ControlPlane::start_from(&dir, flags).unwrap();
        let options = EnvoyOptions::new(plane.bootstrap("envoy").unwrap());
        let envoy = Envoy::start(&dir, "envoy", &options).unwrap();
        plane.wait_in_sync(1, SOON).unwrap();
        ControlPlaneUnderTest { plane, envoy }
    }

    pub(super) fn snapshot(&self) -> String {
        snapshot_of(&self.plane.status().unwrap())
    }

    pub(super) fn wait_listening(&self, address: SocketAddr) {
        self.envoy.wait_listening(address, SOON).unwrap();
    }

    /// Envoy's configuration, without the times of its updates.
    pub(super) fn configuration(&self) -> Vec<String> {
        let dump = self.envoy.admin().config_dump().unwrap();
        let mut parts = Vec::new();
        for config in dump["configs"].as_array().unwrap() {
            for (name, list) in config.as_object().unwrap() {
                // Envoy's own clusters and the bootstrap name sockets and ports of this run.
                if name.starts_with("dynamic_") || name.contains("ecds") {
                    parts.extend(list.as_array().into_iter().flatten().map(|one| format!("{name} {}", timeless(one))));
                }
            }
        }
        parts.sort();
        assert!(parts.iter().any(|part| part.starts_with("dynamic_active_secrets")), "{parts:#?}");
        parts
    }

    /// Waits until the source is, or is not, current.
    pub(crate) fn wait_current(&self, is_current: bool) -> Value {
        let holds = |status: &Value| status["source"]["staleSince"].is_null() == is_current;
        self.plane.wait_status("the source's state", SOON, holds).unwrap()["source"].clone()
    }
}

pub(super) fn snapshot_of(status: &Value) -> String {
    status["snapshot"].as_str().unwrap_or_default().to_owned()
}

fn timeless(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(name, _)| *name != "last_updated" && *name != "version_info");
            Value::Object(kept.map(|(name, value)| (name.clone(), timeless(value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(timeless).collect()),
        other => other.clone(),
    }
}

/// Waits until all sides serve the same and Envoy has it.
pub(super) fn wait_same(sides: [&ControlPlaneUnderTest; 2]) -> String {
    let what = "both sources lead to the same";
    wait::until_ok(what, SOON, || {
        let statuses = sides.map(|side| side.plane.status().unwrap());
        let [one, other] = &statuses;
        let synced = |status: &Value| status["nodes"][0]["inSync"] == true;
        let is_same = snapshot_of(one) == snapshot_of(other) && !snapshot_of(one).is_empty();
        if is_same && synced(one) && synced(other) { Ok(snapshot_of(one)) } else { Err(format!("{one:#}\n{other:#}")) }
    })
    .unwrap()
}

/// The status of an object; `None` if it is not listed.
pub(super) fn object<'a>(status: &'a Value, name: &str) -> Option<&'a Value> {
    status["objects"].as_array()?.iter().find(|one| one["name"] == name && one["kind"] == "UpstreamCluster")
}

pub(super) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
