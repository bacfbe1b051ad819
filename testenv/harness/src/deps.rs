//! Executables that the tests need: found, never built or downloaded here.

use std::path::{Path, PathBuf};

use crate::paths::{profile_dir, project_root};

/// Something was not built or installed yet. The text says which command makes it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} is missing at {}; run `{remedy}`", path.display())]
pub struct Missing {
    /// The missing thing.
    pub what: String,
    /// The path where it was expected.
    pub path: PathBuf,
    /// The command that makes it.
    pub remedy: &'static str,
}

/// The real Kubernetes executables.
#[derive(Debug, Clone)]
pub struct KubeBinaries {
    /// etcd.
    pub etcd: PathBuf,
    /// kube-apiserver.
    pub kube_apiserver: PathBuf,
    /// kubectl.
    pub kubectl: PathBuf,
    /// The node for tests (testenv/kube/cmd/fake-node).
    pub fake_node: PathBuf,
}

/// One value of `testenv/scripts/versions.env`, without quotes.
pub fn pinned(name: &str) -> Option<String> {
    let text = std::fs::read_to_string(project_root().join("testenv/scripts/versions.env")).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))?;
    Some(value.trim().trim_matches('"').to_owned())
}

/// Envoy of the pinned version. `PORTCULLIS_ENVOY` overrides the path, `PORTCULLIS_ENVOY_VERSION` the version.
pub fn envoy() -> Result<PathBuf, Missing> {
    if let Some(path) = std::env::var_os("PORTCULLIS_ENVOY") {
        return present("Envoy (PORTCULLIS_ENVOY)", PathBuf::from(path), "make deps");
    }
    envoy_version(&chosen_envoy().or_else(|| pinned("ENVOY_VERSION")).unwrap_or_default())
}

/// The one version that a run of the tests is about: `PORTCULLIS_ENVOY_VERSION`.
fn chosen_envoy() -> Option<String> {
    std::env::var("PORTCULLIS_ENVOY_VERSION").ok().filter(|version| !version.is_empty())
}

/// The versions with which tests run that are about all of them, the pinned one last: every supported one, or the one that
/// `PORTCULLIS_ENVOY_VERSION` chooses.
pub fn envoy_versions() -> Vec<String> {
    match chosen_envoy() {
        Some(version) => vec![version],
        None => envoy_compat_versions().into_iter().chain(pinned("ENVOY_VERSION")).collect(),
    }
}

/// Envoy of a given version, like `1.38.3`.
pub fn envoy_version(version: &str) -> Result<PathBuf, Missing> {
    let path = project_root().join(".deps/envoy").join(version).join("envoy");
    present(&format!("Envoy {version}"), path, "make deps")
}

/// The older Envoy versions that must work too with the build of the filter that tests run ([`runs_wasm`]).
pub fn envoy_compat_versions() -> Vec<String> {
    let list = |name: &str| pinned(name).unwrap_or_default();
    let left_out = if runs_wasm() { list("ENVOY_WITHOUT_V8") } else { String::new() };
    let is_left_out = |version: &&str| left_out.split_whitespace().any(|without| without == *version);
    let all = list("ENVOY_COMPAT_VERSIONS");
    all.split_whitespace().filter(|version| !is_left_out(version)).map(str::to_owned).collect()
}

/// The real etcd, kube-apiserver and kubectl. Built from source and long to build, hence optional on a laptop: see
/// [`kube_or_skip`]. `PORTCULLIS_KUBE` overrides the directory, for other versions (`make kubernetes-versions`).
pub fn kube() -> Result<KubeBinaries, Missing> {
    let given = std::env::var_os("PORTCULLIS_KUBE").map(PathBuf::from);
    kube_in(&given.unwrap_or_else(|| project_root().join(".deps/kube/current")), "make deps")
}

/// Another release of them, like `1.34.4`, of testenv/kube-versions.
pub fn kube_release(version: &str) -> Result<KubeBinaries, Missing> {
    let parent = project_root().join(".deps/kube-versions");
    let builds = std::fs::read_dir(&parent).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_of = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&format!("{version}-")))
    };
    let newest = builds.filter(is_of).max_by_key(|path| path.metadata().and_then(|data| data.modified()).ok());
    kube_in(&newest.unwrap_or_else(|| parent.join(version)), "make test-store-upgrade")
}

fn kube_in(dir: &Path, remedy: &'static str) -> Result<KubeBinaries, Missing> {
    let find = |name: &str| present(name, dir.join(name), remedy);
    Ok(KubeBinaries {
        etcd: find("etcd")?,
        kube_apiserver: find("kube-apiserver")?,
        kubectl: find("kubectl")?,
        fake_node: find("fake-node")?,
    })
}

/// The tools of etcd for snapshots.
#[derive(Debug, Clone)]
pub struct EtcdTools {
    /// The one that asks a server.
    pub etcdctl: PathBuf,
    /// The one that works on files.
    pub etcdutl: PathBuf,
}

/// [`EtcdTools`] for tests that are skipped without them; `make test-store` sets `PORTCULLIS_ETCD_TOOLS=required`.
pub fn etcd_tools_or_skip(test: &str) -> Result<Option<EtcdTools>, Missing> {
    let dir = project_root().join(".deps/etcd-tools/current");
    let find = |name: &str| present(name, dir.join(name), "make test-store");
    let found = find("etcdctl").and_then(|etcdctl| Ok(EtcdTools { etcdctl, etcdutl: find("etcdutl")? }));
    unless_required("PORTCULLIS_ETCD_TOOLS", test, found)
}

/// The minor version of [`kube`]'s kube-apiserver: 36 of 1.36.3. Other builds than the pinned one have it in a file.
pub fn kube_minor() -> u32 {
    let dir = std::env::var_os("PORTCULLIS_KUBE").map(PathBuf::from);
    let other = dir.and_then(|dir| std::fs::read_to_string(dir.join("version")).ok());
    let version = other.or_else(|| pinned("KUBERNETES_VERSION")).unwrap_or_default();
    version.split('.').nth(1).and_then(|minor| minor.trim().parse().ok()).unwrap_or_default()
}

/// The result, or a reason to skip a test, as a warning on stderr. With `CI=true` a missing file is an error instead, so that a
/// skipped test cannot be mistaken for a passed one.
pub fn or_skip<T>(test: &str, found: Result<T, Missing>) -> Result<Option<T>, Missing> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(missing) if std::env::var("CI").is_ok_and(|ci| ci == "true") => Err(missing),
        Err(missing) => {
            eprintln!("*** SKIPPED {test}: {missing} ***");
            Ok(None)
        }
    }
}

/// [`kube`] for tests that are skipped without it; see [`or_skip`].
pub fn kube_or_skip(test: &str) -> Result<Option<KubeBinaries>, Missing> {
    or_skip(test, kube())
}

/// istiod, and the definitions of Istio's objects.
#[derive(Debug, Clone)]
pub struct Istio {
    /// Istio's control plane.
    pub istiod: PathBuf,
    /// The CustomResourceDefinitions, one file.
    pub crds: PathBuf,
}

/// Istio. Built by Go and long to build, hence optional on a laptop, as [`kube`] is; see [`or_skip`].
pub fn istio() -> Result<Istio, Missing> {
    let dir = project_root().join(".deps/istio/current");
    let find = |name: &str| present(name, dir.join(name), "make istio");
    Ok(Istio { istiod: find("istiod")?, crds: find("crds.yaml")? })
}

/// The program that judges by the parsers of Docker Compose, BuildKit and Prometheus (testenv/declared). Built by Go, hence
/// optional on a laptop, as [`kube`] is; see [`or_skip`].
pub fn declared() -> Result<PathBuf, Missing> {
    present("the parsers of others", project_root().join(".deps/declared/current/declared"), "make deps")
}

/// The OpenTelemetry collector of testenv/otel. Built by Go and long to build, hence optional, as [`kube`] is; see [`or_skip`].
pub fn otel_collector() -> Result<PathBuf, Missing> {
    let path = project_root().join(".deps/otel/current/otel-collector");
    present("the OpenTelemetry collector", path, "make otel")
}

/// [`otel_collector`] for tests that are skipped without it; `make test-otel` sets `PORTCULLIS_OTEL=required`.
pub fn otel_or_skip(test: &str) -> Result<Option<PathBuf>, Missing> {
    unless_required("PORTCULLIS_OTEL", test, otel_collector())
}

/// Helm. Built by Go and long to build, hence optional, as [`kube`] is; see [`helm_or_skip`].
pub fn helm() -> Result<PathBuf, Missing> {
    present("Helm", project_root().join(".deps/helm/current/helm"), "make helm")
}

/// [`helm`] for tests that are skipped without it; `make test-helm` sets `PORTCULLIS_HELM=required`.
pub fn helm_or_skip(test: &str) -> Result<Option<PathBuf>, Missing> {
    unless_required("PORTCULLIS_HELM", test, helm())
}

/// The programs that drive client libraries (testenv/clients), or a reason to skip a test; `make test-clients` sets
/// `PORTCULLIS_CLIENTS=required`.
pub fn clients_or_skip(test: &str) -> Result<Option<PathBuf>, Missing> {
    let dir = project_root().join(".deps/clients");
    let all = ["go", "rust", "python", "javascript", "java"].map(|one| dir.join(one).join("built"));
    let found = all.into_iter().try_for_each(|mark| present("a client", mark, "make test-clients").map(|_| ()));
    unless_required("PORTCULLIS_CLIENTS", test, found.map(|()| dir))
}

/// Kubernetes' scripts test/cmd with their binaries, or a reason to skip a test; `make test-cmd` sets
/// `PORTCULLIS_TEST_CMD=required`.
pub fn test_cmd_or_skip(test: &str) -> Result<Option<PathBuf>, Missing> {
    let dir = project_root().join(".deps/test-cmd/current");
    let found = present("test/cmd of Kubernetes", dir.join("tree/test/cmd/legacy-script.sh"), "make test-cmd");
    unless_required("PORTCULLIS_TEST_CMD", test, found.map(|_| dir))
}

/// The result, or a reason to skip a test, as a warning on stderr. A missing file is an error only if the variable is `required`:
/// it takes longer to build than what CI waits for.
pub(crate) fn unless_required<T>(variable: &str, test: &str, found: Result<T, Missing>) -> Result<Option<T>, Missing> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(missing) if std::env::var(variable).is_ok_and(|value| value == "required") => Err(missing),
        Err(missing) => {
            eprintln!("*** SKIPPED {test}: {missing} ***");
            Ok(None)
        }
    }
}

/// The directory with the definitions of cert-manager and of the Prometheus operator. Fetched by Go, hence optional on a
/// laptop, as [`kube`] is; see [`or_skip`].
pub fn definitions() -> Result<PathBuf, Missing> {
    let dir = project_root().join(".deps/definitions/current");
    let remedy = "make deps";
    // A link, which kubectl does not follow.
    if dir.is_dir() {
        Ok(dir.canonicalize().unwrap_or(dir))
    } else {
        Err(Missing { what: "definitions".to_owned(), path: dir, remedy })
    }
}

/// The program that answers by kube-apiserver's own packages (testenv/oracle). Built by Go, hence optional on a laptop,
/// as [`kube`] is; see [`or_skip`]. `PORTCULLIS_ORACLE` overrides the path, for other versions (`make kubernetes-versions`).
pub fn oracle() -> Result<PathBuf, Missing> {
    if let Some(path) = std::env::var_os("PORTCULLIS_ORACLE") {
        return present("the oracle (PORTCULLIS_ORACLE)", PathBuf::from(path), "make kubernetes-versions");
    }
    present("the oracle", project_root().join(".deps/oracle/current/oracle"), "make deps")
}

/// Prometheus. A package of Debian's, hence optional on a laptop; see [`or_skip`].
pub fn prometheus() -> Result<PathBuf, Missing> {
    present("Prometheus", project_root().join(".deps/prometheus/prometheus"), "make deps")
}

/// Redis and its sentinel.
#[derive(Debug, Clone)]
pub struct Redis {
    /// The server.
    pub server: PathBuf,
    /// The program that watches servers and makes a replica the master.
    pub sentinel: PathBuf,
    /// The directory of libraries that the machine lacks.
    pub libraries: PathBuf,
}

/// Redis. A package of Debian's, hence optional on a laptop; see [`or_skip`].
pub fn redis() -> Result<Redis, Missing> {
    let directory = project_root().join(".deps/redis");
    let find = |name: &str| present(name, directory.join(name), "make deps");
    Ok(Redis { server: find("redis-server")?, sentinel: find("redis-sentinel")?, libraries: directory.clone() })
}

/// dnsmasq.
#[derive(Debug, Clone)]
pub struct Dnsmasq {
    /// The DNS server.
    pub program: PathBuf,
    /// The directory of libraries that the machine lacks.
    pub libraries: PathBuf,
}

/// dnsmasq. A package of Debian's, hence optional on a laptop; see [`or_skip`].
pub fn dnsmasq() -> Result<Dnsmasq, Missing> {
    let libraries = project_root().join(".deps/dnsmasq");
    Ok(Dnsmasq { program: present("dnsmasq", libraries.join("dnsmasq"), "make deps")?, libraries })
}

/// Proxies of others, which benchmarks measure beside the gateway.
#[derive(Debug, Clone)]
pub struct Peers {
    /// HAProxy.
    pub haproxy: PathBuf,
    /// nginx.
    pub nginx: PathBuf,
    /// The directory of libraries that the machine lacks.
    pub libraries: PathBuf,
}

/// Packages of Debian's, which nothing but a benchmark needs.
pub fn peers() -> Result<Peers, Missing> {
    let directory = project_root().join(".deps/peers");
    let find = |name: &str| present(name, directory.join(name), "testenv/scripts/install-peers");
    Ok(Peers { haproxy: find("haproxy")?, nginx: find("nginx")?, libraries: directory.clone() })
}

/// Chromium, its driver, and the files that both need.
#[derive(Debug, Clone)]
pub struct Chromium {
    /// The browser.
    pub browser: PathBuf,
    /// The program that drives it by WebDriver.
    pub driver: PathBuf,
    /// The directories of libraries that the machine lacks, separated by colons.
    pub libraries: String,
    /// The configuration of fonts.
    pub fonts: PathBuf,
}

/// Chromium. Packages of Debian's, hence optional on a laptop; see [`or_skip`].
pub fn chromium() -> Result<Chromium, Missing> {
    let dir = project_root().join(".deps/chromium");
    // The driver starts from a directory of its own.
    let dir = dir.canonicalize().unwrap_or(dir);
    let find = |path: &str| present("Chromium", dir.join(path), "make test-console");
    let libraries = dir.join(format!("usr/lib/{}-linux-gnu", std::env::consts::ARCH));
    Ok(Chromium {
        browser: find("usr/lib/chromium/chromium")?,
        driver: find("usr/bin/chromedriver")?,
        libraries: format!("{0}:{0}/pulseaudio", libraries.display()),
        fonts: find("fonts.conf")?,
    })
}

/// The source of axe-core, which judges the accessibility of a page. An npm package, optional as [`chromium`] is.
pub fn axe() -> Result<PathBuf, Missing> {
    let version = pinned("AXE_CORE_VERSION").unwrap_or_default();
    present("axe-core", project_root().join(".deps/axe").join(version).join("axe.min.js"), "make test-console")
}

/// The directory with `libportcullis.so`. `PORTCULLIS_MODULE_DIR` overrides it; else `<target>/module` of the running
/// executable, else `target/module` of the project.
pub fn module_dir() -> Result<PathBuf, Missing> {
    let name = "libportcullis.so";
    if let Some(dir) = std::env::var_os("PORTCULLIS_MODULE_DIR") {
        let dir = PathBuf::from(dir);
        present(name, dir.join(name), "make module")?;
        return Ok(dir);
    }
    let own = profile_dir().and_then(|dir| Some(dir.parent()?.join("module")));
    let project = project_root().join("target/module");
    let dir = own.filter(|dir| dir.join(name).is_file()).unwrap_or(project);
    present(name, dir.join(name), "make module")?;
    Ok(dir)
}

/// The path of `portcullis.wasm`, if it is built. `PORTCULLIS_WASM` overrides it; else `target/wasm` of the project.
pub fn wasm_path() -> PathBuf {
    let own = std::env::var_os("PORTCULLIS_WASM").map(PathBuf::from);
    own.unwrap_or_else(|| project_root().join("target/wasm/portcullis.wasm"))
}

/// `portcullis.wasm`.
pub fn wasm() -> Result<PathBuf, Missing> {
    present("portcullis.wasm", wasm_path(), "make wasm")
}

/// Which build of the filter tests run: the module, or wasm with `PORTCULLIS_FILTER=wasm`.
pub fn runs_wasm() -> bool {
    std::env::var("PORTCULLIS_FILTER").is_ok_and(|build| build == "wasm")
}

/// The `portcullis` executable. `PORTCULLIS_BIN` overrides it; else the one next to the running test.
pub fn portcullis() -> Result<PathBuf, Missing> {
    binary("portcullis", "PORTCULLIS_BIN")
}

/// The `stub-apiserver` executable. `PORTCULLIS_STUB_BIN` overrides it; else the one next to the running test.
pub fn stub_apiserver() -> Result<PathBuf, Missing> {
    binary("stub-apiserver", "PORTCULLIS_STUB_BIN")
}

/// Java, as the machine has it: no script of ours installs it. See [`or_skip`].
pub fn java() -> Result<PathBuf, Missing> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|dir| dir.join("java")).find(|path| path.is_file());
    present("java", found.unwrap_or_else(|| PathBuf::from("java")), "apt-get install default-jdk-headless")
}

fn binary(name: &str, variable: &str) -> Result<PathBuf, Missing> {
    let remedy = "cargo build --workspace --bins";
    if let Some(path) = std::env::var_os(variable) {
        return present(name, PathBuf::from(path), remedy);
    }
    let fallback = project_root().join("target/debug").join(name);
    let own = profile_dir().map(|dir| dir.join(name)).filter(|path| path.is_file());
    present(name, own.unwrap_or(fallback), remedy)
}

pub(crate) fn present(what: &str, path: PathBuf, remedy: &'static str) -> Result<PathBuf, Missing> {
    if Path::is_file(&path) { Ok(path) } else { Err(Missing { what: what.to_owned(), path, remedy }) }
}
