use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use portcullis_harness::certs::{Ca, CertSpec, Identity};
use portcullis_harness::client::TlsTarget;
use portcullis_harness::control_plane::ControlPlane;
use portcullis_harness::envoy::{Envoy, EnvoyOptions};
use portcullis_harness::kubeconfig::Kubeconfig;
use portcullis_harness::rundir::RunDir;
use portcullis_harness::{Error, Result, deps, ports, wait, write_private};
use serde_json::Value;

use crate::manifest::{Manifest, default_certificate, settings};

/// How long a change may take to arrive.
const ARRIVES: Duration = Duration::from_secs(20);

/// How long one handshake may take on the way to each worker.
const HANDSHAKE: Duration = Duration::from_secs(2);

/// The number of handshakes before the workers' counts are read.
const AT_A_TIME: u32 = 4;

/// The number of connections that each worker takes: a first one may come from before, a second one together with the rest of
/// the queue.
const EACH: u64 = 4;

/// The number of handshakes that were refused at once, and that no worker has counted, after which the listener counts as
/// refusing all.
const UNCOUNTED: u32 = 12;

/// How to run a gateway.
#[derive(Clone, Debug, Default)]
pub struct GatewayOptions {
    /// Envoy's version; the pinned one if unset.
    pub envoy_version: Option<String>,
    /// The directory of the module; that of the built one if unset.
    pub module_dir: Option<PathBuf>,
    /// The `portcullis.wasm` to run in the module's place; if unset, the built one where the tests are to run with wasm
    /// ([`deps::runs_wasm`]).
    pub wasm: Option<PathBuf>,
    /// The gateway's instance id; `e2e` if unset.
    pub instance: Option<String>,
    /// More of `spec.listener` of the settings; null is nothing.
    pub listener: Value,
    /// More of the `spec` of the settings; null is nothing.
    pub settings: Value,
    /// Whether the filter can be asked for its activity ([`Gateway::activity`]).
    pub activity: bool,
    /// More flags of `portcullis bootstrap`.
    pub bootstrap_flags: Vec<String>,
    /// A file with the fill level of Envoy's heap, from 0 to 1, in the place of the heap. Takes effect when a file is renamed
    /// to it. Needs `--max-heap-mib`.
    pub heap_level: Option<PathBuf>,
    /// More flags of Envoy.
    pub envoy_flags: Vec<String>,
    /// Envoy's worker threads; two if unset.
    pub workers: Option<u32>,
    /// More flags of `portcullis serve`.
    pub plane_flags: Vec<String>,
    /// More of the control plane's environment.
    pub plane_env: Vec<(String, String)>,
}

/// A control plane and an Envoy. End with this value.
#[derive(Debug)]
pub struct Gateway {
    plane: ControlPlane,
    envoy: Envoy,
    manifests: PathBuf,
    address: SocketAddr,
    serving_ca: Ca,
    workers: usize,
}

impl Gateway {
    /// Starts a gateway without any cluster below the run's directory.
    ///
    /// # Errors
    /// The step that failed.
    pub fn start(run: &RunDir, options: &GatewayOptions) -> Result<Self> {
        let instance = options.instance.as_deref().unwrap_or("e2e");
        let dir = run.make_dir("gateway")?;
        let manifests = run.make_dir("gateway/manifests")?;
        let mut address = ports::free_address()?;
        if let Some(ip) = options.listener.get("address").and_then(Value::as_str).and_then(|ip| ip.parse().ok()) {
            address.set_ip(ip);
        }
        let serving_ca = Ca::new("gateway serving authority")?;
        let default_certificate = default_certificate(&serving_ca)?;
        run.write(
            "gateway/manifests/settings.yaml",
            with_more(&settings(instance, address, &default_certificate), options)?,
        )?;
        let config_dir = manifests.display().to_string();
        let flags: Vec<&str> =
            ["--config", &config_dir].into_iter().chain(options.plane_flags.iter().map(String::as_str)).collect();
        let env: Vec<_> = options.plane_env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let plane = ControlPlane::start_in(&dir, &flags, &env)?;
        // Else the settings' own snapshot would be taken for the outcome of the first change.
        plane.wait_status("the settings are read", ARRIVES, |status| !snapshot_of(status).is_empty())?;
        let mut flags: Vec<&str> = options.bootstrap_flags.iter().map(String::as_str).collect();
        if options.wasm.is_some() || deps::runs_wasm() {
            flags.extend(["--filter", "wasm"]);
        }
        let bootstrap = plane.bootstrap_with("envoy-0", &flags)?;
        let bootstrap =
            options.heap_level.as_deref().map_or(Ok(bootstrap.clone()), |file| with_heap_level(&bootstrap, file))?;
        let bootstrap = with_quick_spans(bootstrap)?;
        let mut envoy_options = EnvoyOptions::new(bootstrap);
        envoy_options.version.clone_from(&options.envoy_version);
        envoy_options.module_dir.clone_from(&options.module_dir);
        envoy_options.flags.clone_from(&options.envoy_flags);
        envoy_options.concurrency = options.workers.unwrap_or(envoy_options.concurrency);
        envoy_options.has_channel = options.activity;
        // Lines of the access log, which Envoy else keeps for ten seconds.
        envoy_options.flags.extend(["--file-flush-interval-msec", "50"].map(str::to_owned));
        let envoy = Envoy::start(&dir, "envoy-0", &envoy_options)?;
        let workers = workers(&envoy)?;
        Ok(Gateway { plane, envoy, manifests, address, serving_ca, workers })
    }

    /// The activity that the filter sends to an agent.
    ///
    /// # Errors
    /// [`Error::Connection`] without an answer, [`Error::Lacks`] if the gateway was started without
    /// [`GatewayOptions::activity`].
    pub fn activity(&self) -> Result<Value> {
        let lacks = || Error::Lacks { what: "the gateway".to_owned(), field: "activity".to_owned() };
        self.envoy.filter().ok_or_else(lacks)?.activity()
    }

    /// A certificate for a host name, of the authority that clients of this gateway trust.
    ///
    /// # Errors
    /// [`portcullis_harness::Error::Certificate`].
    pub fn serving_identity(&self, name: &str) -> Result<Identity> {
        self.serving_ca.issue(&CertSpec::server(name, [name]))
    }

    /// Writes a cluster's manifest, without waiting for it to take effect.
    ///
    /// # Errors
    /// [`portcullis_harness::Error::File`].
    pub fn write(&self, manifest: &Manifest) -> Result<()> {
        self.write_file(&format!("{}.yaml", manifest.name()), &manifest.to_text())
    }

    /// Writes any file into the watched directory, in one step, as a reader sees it.
    ///
    /// # Errors
    /// [`portcullis_harness::Error::File`].
    pub fn write_file(&self, name: &str, text: &str) -> Result<()> {
        write_private(&self.manifests.join(name), text.as_bytes())
    }

    /// Writes a cluster's manifest and waits until Envoy has acknowledged a snapshot that differs from the one before, and all
    /// of its workers act by it.
    ///
    /// # Errors
    /// The step that failed, with the control plane's last log lines.
    pub fn apply(&self, manifest: &Manifest) -> Result<()> {
        self.and_wait(|| self.write(manifest))
    }

    /// Waits until each worker follows the configuration that Envoy has acknowledged.
    ///
    /// An acknowledged configuration is in the queue of each worker, and a worker that has taken a few connections since then
    /// has been through its queue. The system chooses the worker of a connection, so there are as many connections as that
    /// takes. The outcome of a handshake does not matter. Of a listener that refuses all, because it does not trust this proxy,
    /// nothing is known.
    ///
    /// # Errors
    /// [`Error::Deadline`], or the step that failed.
    pub fn wait_for_every_worker(&self) -> Result<()> {
        let target = TlsTarget::new(self.address).timeout(HANDSHAKE).preamble(&self.preamble());
        let before = self.taken()?;
        let (mut tried, mut turned_away) = (0, 0);
        wait::until_ok("every worker has taken connections since", ARRIVES, || {
            for _ in 0..AT_A_TIME {
                match target.connect() {
                    Ok(_) => {}
                    // A worker that is busy counts later.
                    Err(error) if error.is_timeout() => turned_away = 0,
                    Err(_) => turned_away += 1,
                }
            }
            tried += AT_A_TIME;
            let taken = self.taken().map_err(|error| error.to_string())?;
            let before = |worker: &String| before.get(worker).copied().unwrap_or_default();
            let new: Vec<u64> = taken.iter().map(|(worker, count)| count.saturating_sub(before(worker))).collect();
            let all_have = tried >= UNCOUNTED && new.iter().all(|count| *count >= EACH);
            let none_counts = turned_away >= UNCOUNTED && new.iter().all(|count| *count == 0);
            let is_done = new.len() >= self.workers && (all_have || none_counts);
            if is_done { Ok(()) } else { Err(format!("{new:?} of {} workers", self.workers)) }
        })
    }

    /// A field of the settings as they were written last; nothing if they have none.
    fn setting(&self, pointer: &str) -> Value {
        let text = std::fs::read_to_string(self.manifests.join("settings.yaml")).unwrap_or_default();
        let settings: Value = serde_json::from_str(&text).unwrap_or_default();
        settings.pointer(pointer).cloned().unwrap_or_default()
    }

    /// Whether all clients come through proxies.
    fn is_for_proxies(&self) -> bool {
        self.setting("/spec/listener/proxyProtocol").as_object().is_some_and(|door| !door.contains_key("port"))
    }

    /// The PROXY header, if all clients come through proxies.
    fn preamble(&self) -> Vec<u8> {
        let line = format!("PROXY TCP4 127.0.0.1 127.0.0.1 40000 {}\r\n", self.address.port());
        if self.is_for_proxies() { line.into_bytes() } else { Vec::new() }
    }

    /// How many connections each worker has taken at the gateway's port.
    fn taken(&self) -> Result<BTreeMap<String, u64>> {
        let suffix = if self.is_for_proxies() { "-proxied" } else { "" };
        let instance = self.setting("/spec/instance").as_str().unwrap_or_default().replace('.', "_");
        let pattern = format!(r"^listener\.{instance}{suffix}\.worker_[0-9]+\.downstream_cx_total$");
        Ok(self.envoy.admin().stats(&pattern)?.into_iter().collect())
    }

    /// Makes a change and waits until Envoy has acknowledged a snapshot that differs from the one before, and all of its
    /// workers act by it.
    ///
    /// # Errors
    /// The step that failed, with the control plane's last log lines.
    pub fn and_wait(&self, change: impl FnOnce() -> Result<()>) -> Result<()> {
        let before = snapshot_of(&self.plane.status()?);
        change()?;
        self.plane.wait_status("the change is in effect", ARRIVES, |status| {
            let is_synced = status.pointer("/nodes/0/inSync").and_then(serde_json::Value::as_bool) == Some(true);
            is_synced && snapshot_of(status) != before
        })?;
        self.envoy.wait_listening(self.address, ARRIVES)?;
        // Envoy acknowledges a listener before it has what its chains refer to; until then the one before answers.
        wait::until_ok("Envoy's listener is in effect", ARRIVES, || {
            match self.envoy.admin().stat("listener_manager.total_listeners_warming") {
                Ok(0) => Ok(()),
                Ok(warming) => Err(format!("{warming} warming")),
                Err(error) => Err(error.to_string()),
            }
        })?;
        self.wait_for_every_worker()
    }

    /// Changes the `spec` of the gateway's settings and waits until Envoy has acknowledged the outcome.
    ///
    /// # Errors
    /// The step that failed, with the control plane's last log lines.
    pub fn change_settings(&self, change: impl FnOnce(&mut serde_json::Value)) -> Result<()> {
        let path = self.manifests.join("settings.yaml");
        let text = std::fs::read_to_string(&path);
        let text = text.map_err(|source| portcullis_harness::Error::File { step: "reading", path, source })?;
        let what = || "the settings".to_owned();
        let mut object: serde_json::Value =
            serde_json::from_str(&text).map_err(|source| portcullis_harness::Error::Json { what: what(), source })?;
        if let Some(spec) = object.get_mut("spec") {
            change(spec);
        }
        self.and_wait(|| self.write_file("settings.yaml", &format!("{object:#}")))
    }

    /// Ends the control plane and starts another one on the same manifests and socket.
    ///
    /// # Errors
    /// The step that failed.
    pub fn restart_control_plane(&mut self) -> Result<()> {
        self.plane.restart()?;
        self.plane.wait_in_sync(1, ARRIVES).map(drop)
    }

    /// Removes a cluster's manifest, without waiting for it to take effect.
    ///
    /// # Errors
    /// [`portcullis_harness::Error::File`].
    pub fn remove(&self, name: &str) -> Result<()> {
        let path = self.manifests.join(format!("{name}.yaml"));
        std::fs::remove_file(&path).map_err(|source| portcullis_harness::Error::File { step: "removing", path, source })
    }

    /// The manifests that grant the gateway's own user what it needs.
    ///
    /// # Errors
    /// [`portcullis_harness::Error::Command`].
    pub fn rbac(&self, user: &str) -> Result<String> {
        self.plane.rbac(user)
    }

    /// The watched directory.
    pub fn manifests(&self) -> &Path {
        &self.manifests
    }

    /// The address for clients.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The CA of the gateway's serving certificate.
    pub fn serving_ca(&self) -> &Ca {
        &self.serving_ca
    }

    /// The gateway under a host name.
    pub fn target(&self, name: &str) -> TlsTarget {
        TlsTarget::new(self.address).sni(name).trust(&self.serving_ca)
    }

    /// A kubeconfig for a cluster behind the gateway, without a credential.
    pub fn kubeconfig(&self, name: &str) -> Kubeconfig {
        Kubeconfig::new(format!("https://{}", self.address)).ca(&self.serving_ca).tls_server_name(name)
    }

    /// The control plane.
    pub fn plane(&self) -> &ControlPlane {
        &self.plane
    }

    /// Envoy.
    pub fn envoy(&self) -> &Envoy {
        &self.envoy
    }
}

fn workers(envoy: &Envoy) -> Result<usize> {
    let info = envoy.admin().json("/server_info")?;
    let told = info.pointer("/command_line_options/concurrency").and_then(Value::as_u64);
    let lacks = || Error::Lacks { what: "/server_info".to_owned(), field: "concurrency".to_owned() };
    told.and_then(|count| usize::try_from(count).ok()).ok_or_else(lacks)
}

fn snapshot_of(status: &serde_json::Value) -> String {
    status.get("snapshot").and_then(serde_json::Value::as_str).unwrap_or_default().to_owned()
}

/// The settings with what the options add.
fn with_more(settings: &str, options: &GatewayOptions) -> Result<String> {
    let what = || "the settings".to_owned();
    let mut object: Value = serde_json::from_str(settings).map_err(|source| Error::Json { what: what(), source })?;
    let listener = object.pointer_mut("/spec/listener").and_then(Value::as_object_mut);
    if let (Some(listener), Some(more)) = (listener, options.listener.as_object()) {
        listener.extend(more.clone());
    }
    let Some(spec) = object.pointer_mut("/spec").and_then(Value::as_object_mut) else { return Ok(settings.to_owned()) };
    if let Some(more) = options.settings.as_object() {
        spec.extend(more.clone());
    }
    if let Some(file) = &options.wasm {
        spec.insert("wasmModulePath".to_owned(), file.to_string_lossy().into());
    }
    Ok(format!("{object:#}"))
}

/// The bootstrap with spans sent after a fifth of a second, not five seconds: most tests of traces would only wait for that.
fn with_quick_spans(mut bootstrap: Value) -> Result<Value> {
    let layer = bootstrap.pointer_mut("/layered_runtime/layers/0/static_layer").and_then(Value::as_object_mut);
    let lacks = || Error::Lacks { what: "the bootstrap".to_owned(), field: "a static layer".to_owned() };
    layer.ok_or_else(lacks)?.insert("tracing.opentelemetry.flush_interval_ms".to_owned(), 200.into());
    Ok(bootstrap)
}

/// The bootstrap with a file for the heap.
fn with_heap_level(bootstrap: &Value, file: &Path) -> Result<Value> {
    let what = || "the bootstrap".to_owned();
    let text = bootstrap.to_string().replace("resource_monitors.fixed_heap", "resource_monitors.injected_resource");
    let mut with_heap_level: Value =
        serde_json::from_str(&text).map_err(|source| Error::Json { what: what(), source })?;
    let monitor = with_heap_level.pointer_mut("/overload_manager/resource_monitors/1/typed_config");
    let monitor = monitor.ok_or_else(|| Error::Lacks { what: what(), field: "a monitor of the heap".to_owned() })?;
    *monitor = serde_json::json!({
        "@type": "type.googleapis.com/envoy.extensions.resource_monitors.injected_resource.v3.InjectedResourceConfig",
        "filename": file,
    });
    Ok(with_heap_level)
}
