//! An Envoy that is set up like the ingress gateway of a Gardener seed on which the objects of `envoy/gardener` were applied.
//!
//! istiod has no part in it. [`istio`] and [`patches`] translate these objects as istiod does, according to its source and
//! documents; the values of all patches reach Envoy unchanged from the files.
#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    reason = "what a JSON value does not have is null; only tests end here"
)]

mod istio;
mod objects;
mod patches;

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use portcullis_harness::certs::{Ca, CertSpec, Identity};
use portcullis_harness::client::{Response, TlsTarget, plain};
use portcullis_harness::envoy::{Envoy, EnvoyOptions};
use portcullis_harness::rundir::RunDir;
use portcullis_harness::{Result, ports};
use serde_json::{Value, json};

use patches::Resources;

const ARRIVES: Duration = Duration::from_secs(20);

/// A shoot behind the ingress.
#[derive(Debug)]
pub struct ShootSetup<'a> {
    /// Its name in host names.
    pub name: &'a str,
    /// The servers. Their certificates carry `kubernetes.default.svc.cluster.local`.
    pub servers: Vec<SocketAddr>,
    /// The CA of the servers' certificates, and of those presented to clients.
    pub cluster_ca: &'a Ca,
    /// The CA of clients' certificates.
    pub client_ca: &'a Ca,
    /// The front-proxy certificate.
    pub front_proxy: &'a Identity,
}

/// How to reach a shoot.
#[derive(Debug, Clone)]
pub struct Shoot {
    /// The control plane's namespace.
    pub namespace: String,
    /// The host name of the kube-apiserver.
    pub host: String,
    /// The one that the seed's wildcard certificate covers.
    pub wildcard_host: String,
    cluster_ca: Ca,
}

/// The ingress. Ends with this value.
#[derive(Debug)]
pub struct Ingress {
    envoy: Envoy,
    shoots: Vec<Shoot>,
    address: SocketAddr,
    proxy_address: SocketAddr,
    wildcard_ca: Ca,
}

impl Ingress {
    /// Starts an ingress in front of some shoots. `change` changes what Envoy is started with.
    ///
    /// # Errors
    /// The step that failed.
    pub fn start(run: &RunDir, shoots: &[ShootSetup<'_>], change: impl FnOnce(&mut EnvoyOptions)) -> Result<Self> {
        let (address, proxy_address) = (ports::free_address()?, ports::free_address()?);
        let admin = ports::free_address()?;
        let wildcard_ca = Ca::new("seed")?;
        let wildcard = wildcard_ca.issue(&CertSpec::server("seed", ["*.ingress.seed.example.com"]))?;
        let (mut resources, mut known) = (Resources::default(), Vec::new());
        for setup in shoots {
            // Unlike anybody else's, because abstract sockets are shared by the whole machine.
            let shoot = Shoot::of(setup, address.port());
            let objects = objects::read(&shoot.namespace, setup.name, &setup.client_ca.pem())?;
            shoot.write_secrets(run, setup, &wildcard)?;
            let mut own = Resources {
                chains: istio::chains(&objects),
                clusters: istio::clusters(&objects, &setup.servers),
                listeners: Vec::new(),
            };
            own.patch(&objects);
            resources.chains.extend(own.chains);
            resources.clusters.extend(own.clusters);
            resources.listeners.extend(own.listeners);
            known.push(shoot);
        }
        let mut bootstrap = bootstrap(resources, [address, proxy_address, admin]);
        secrets_by_file(&mut bootstrap, run.path());
        let mut options = EnvoyOptions::new(bootstrap);
        change(&mut options);
        let envoy = Envoy::start(run.path(), "ingress", &options)?;
        envoy.wait_ready(ARRIVES)?;
        Ok(Self { envoy, shoots: known, address, proxy_address, wildcard_ca })
    }

    /// The shoots, in the order in which they were given.
    pub fn shoots(&self) -> &[Shoot] {
        &self.shoots
    }

    /// A shoot by its own host name.
    pub fn target(&self, shoot: &Shoot) -> TlsTarget {
        TlsTarget::new(self.address).sni(&shoot.host).trust(&shoot.cluster_ca)
    }

    /// A shoot by the host name that the wildcard certificate covers.
    pub fn wildcard_target(&self, shoot: &Shoot) -> TlsTarget {
        TlsTarget::new(self.address).sni(&shoot.wildcard_host).trust(&self.wildcard_ca)
    }

    /// As apiserver-proxy on a shoot's nodes does it: by HTTP CONNECT, with a header that says where to.
    pub fn tunnel(&self, destination: &str, shoot: &Shoot) -> TlsTarget {
        let connect = connect(destination);
        TlsTarget::new(self.proxy_address).sni("kubernetes.default").trust(&shoot.cluster_ca).tunnel(connect.as_bytes())
    }

    /// As [`Ingress::tunnel`], behind a load balancer that speaks PROXY protocol.
    pub fn balanced_tunnel(&self, header: &str, shoot: &Shoot) -> TlsTarget {
        self.tunnel(&shoot.socket(), shoot).tunnel(format!("{header}{}", connect(&shoot.socket())).as_bytes())
    }

    /// The same without TLS inside: sends `bytes` through the tunnel and reads one answer.
    ///
    /// # Errors
    /// [`portcullis_harness::Error`], also when there is no tunnel.
    pub fn plain_tunnel(&self, destination: &str, bytes: &[u8]) -> Result<Response> {
        plain::tunnel(self.proxy_address, connect(destination).as_bytes(), bytes)
    }

    /// Envoy.
    pub fn envoy(&self) -> &Envoy {
        &self.envoy
    }
}

impl Shoot {
    fn of(setup: &ShootSetup<'_>, port: u16) -> Self {
        let name = setup.name;
        Self {
            namespace: format!("shoot--dev--{name}-{port}"),
            host: format!("api.{name}.dev.example.com"),
            wildcard_host: format!("api-dev--{name}.ingress.seed.example.com"),
            cluster_ca: setup.cluster_ca.clone(),
        }
    }

    /// The target of apiserver-proxy's tunnels.
    pub fn socket(&self) -> String {
        format!("{}--kube-apiserver-socket", self.namespace)
    }

    /// The Envoy cluster of the Service, or of a subset of it.
    pub fn cluster(&self, subset: &str) -> String {
        let whose = if matches!(subset, "h2" | "upgrade") { "portcullis" } else { "outbound" };
        format!("{whose}|443|{subset}|kube-apiserver.{}.svc.cluster.local", self.namespace)
    }

    /// Replaces the front-proxy certificate.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn renew(&self, run: &RunDir, front_proxy: &Identity) -> Result<()> {
        let name = format!("{}-kube-apiserver-istio-mtls", self.namespace);
        let dir = run.join("secrets");
        front_proxy.write_pem(&dir.join(format!("{name}.crt")), &dir.join(format!("{name}.key")))
    }

    fn write_secrets(&self, run: &RunDir, setup: &ShootSetup<'_>, wildcard: &Identity) -> Result<()> {
        let names = [self.host.as_str(), "kubernetes.default", "kubernetes.default.svc.cluster.local"];
        let serving = setup.cluster_ca.issue(&CertSpec::server("kube-apiserver", names))?;
        let each = [
            ("kube-apiserver-tls", &serving, setup.client_ca),
            ("kube-apiserver-wildcard-tls", wildcard, setup.client_ca),
            ("kube-apiserver-istio-mtls", setup.front_proxy, setup.cluster_ca),
        ];
        for (name, identity, ca) in each {
            write_secret(run, &format!("{}-{name}", self.namespace), identity, ca)?;
        }
        Ok(())
    }
}

/// A Secret as istiod hands it out: certificate and key by its name, the authority by its name with `-cacert`.
fn write_secret(run: &RunDir, name: &str, identity: &Identity, ca: &Ca) -> Result<()> {
    let dir = run.make_dir("secrets")?;
    let file = |end: &str| dir.join(format!("{name}{end}"));
    identity.write_pem(&file(".crt"), &file(".key"))?;
    ca.write_pem(&file("-cacert.crt"))?;
    let watched = json!({"path": dir});
    let kind = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret";
    let (full, authority) = (format!("{}{name}", istio::SECRET), format!("{}{name}-cacert", istio::SECRET));
    let pair = json!({"certificate_chain": {"filename": file(".crt")}, "private_key": {"filename": file(".key")}, "watched_directory": watched});
    let pair = json!({"resources": [{"@type": kind, "name": full, "tls_certificate": pair}]});
    let bundle = json!({"trusted_ca": {"filename": file("-cacert.crt")}, "watched_directory": watched});
    let bundle = json!({"resources": [{"@type": kind, "name": authority, "validation_context": bundle}]});
    run.write(&format!("secrets/{name}.json"), pair.to_string())?;
    run.write(&format!("secrets/{name}-cacert.json"), bundle.to_string()).map(drop)
}

/// Points every reference to a Secret to its file.
fn secrets_by_file(value: &mut Value, run: &Path) {
    match value {
        Value::Object(fields) => {
            let name = fields.get("name").and_then(Value::as_str).and_then(|name| name.strip_prefix(istio::SECRET));
            if let Some(path) = name.map(|name| run.join("secrets").join(format!("{name}.json"))) {
                let source = json!({"resource_api_version": "V3", "path_config_source": {"path": path}});
                fields.insert("sds_config".to_owned(), source);
            }
            fields.values_mut().for_each(|field| secrets_by_file(field, run));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| secrets_by_file(item, run)),
        _ => {}
    }
}

fn connect(destination: &str) -> String {
    format!(
        "CONNECT kubernetes.default:443 HTTP/1.1\r\nHost: kubernetes.default:443\r\n\
         X-Gardener-Destination: {destination}\r\n\r\n"
    )
}

fn bootstrap(resources: Resources, [address, proxy, admin]: [SocketAddr; 3]) -> Value {
    let socket = |address: SocketAddr| json!({"socket_address": {"address": address.ip().to_string(), "port_value": address.port()}});
    let filter = |name: &str, kind: &str, more: Value| {
        let mut config =
            json!({"@type": format!("type.googleapis.com/envoy.extensions.filters.listener.{name}.v3.{kind}")});
        if let (Some(config), Value::Object(more)) = (config.as_object_mut(), more) {
            config.extend(more);
        }
        json!({"name": format!("envoy.filters.listener.{name}"), "typed_config": config})
    };
    let proxy_protocol =
        filter("proxy_protocol", "ProxyProtocol", json!({"allow_requests_without_proxy_protocol": true}));
    let tls = json!({
        "name": "0.0.0.0_9443",
        "address": socket(address),
        // Of the seed: EnvoyFilters istio-ingressgateway, proxy-protocol-sni and proxy-protocol.
        "per_connection_buffer_limit_bytes": 32768,
        "listener_filters": [
            proxy_protocol,
            filter("tls_inspector", "TlsInspector", json!({})),
        ],
        "filter_chains": resources.chains,
    });
    let mut listeners = vec![tls, http_proxy(&socket(proxy), &proxy_protocol)];
    listeners.extend(resources.listeners);
    json!({
        "node": {"id": "ingress", "cluster": "istio-ingressgateway"},
        "admin": {"address": socket(admin)},
        // Of Istio's own bootstrap; before Envoy 1.39 there is a bound that Gardener's regular expression does not keep.
        "layered_runtime": {"layers": [{"name": "istio", "static_layer": {"re2.max_program_size.error_level": "32768"}}]},
        "static_resources": {"listeners": listeners, "clusters": resources.clusters},
    })
}

/// Of the seed: EnvoyFilters http-proxy and http-proxy-listener, where apiserver-proxy and the VPN come in.
fn http_proxy(address: &Value, proxy_protocol: &Value) -> Value {
    let regex = r"^(outbound\|443\|\|kube-apiserver\..*\.svc\.cluster\.local|shoot--.*--.*--kube-apiserver-socket)$";
    let redirect = json!({"https_redirect": true, "port_redirect": 443});
    json!({"name": "0.0.0.0_8443", "address": address, "listener_filters": [proxy_protocol], "filter_chains": [{"filters": [{
        "name": "envoy.filters.network.http_connection_manager",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
            "stat_prefix": "http-proxy",
            "upgrade_configs": [{"upgrade_type": "CONNECT"}],
            "http_filters": [{"name": "envoy.filters.http.router", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}],
            "route_config": {"virtual_hosts": [{"name": "http-proxy", "domains": ["*"], "routes": [
                {
                    "match": {"connect_matcher": {}, "headers": [{"name": "X-Gardener-Destination", "string_match": {"safe_regex": {"regex": regex}}}]},
                    "route": {"cluster_header": "X-Gardener-Destination", "upgrade_configs": [{"upgrade_type": "CONNECT", "connect_config": {}}]},
                },
                {"match": {"connect_matcher": {}}, "redirect": redirect},
                {"match": {"prefix": "/"}, "redirect": redirect},
            ]}]},
        },
    }]}]})
}
