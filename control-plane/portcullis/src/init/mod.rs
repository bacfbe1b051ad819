//! `portcullis init`: the store for the objects, where there is no Kubernetes for them.

mod apply;
mod arguments;
mod authority;
mod configuration;
mod files;
mod forget;
mod kubeconfig;
mod layout;
mod lookout;
mod member;
mod objects;
mod programs;
mod release;
mod settings;
mod tenant;
#[cfg(test)]
mod tests;
mod withdrawn;

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use time::OffsetDateTime;

pub(crate) use arguments::Init;
use authority::Renewal;
use files::Layout;
use lookout::Lookout;
use release::Release;
use settings::Settings;

/// The kubeconfig of the group system:masters, for which no rule holds.
const ADMIN_KUBECONFIG: &str = "admin.kubeconfig";
/// The control plane's user.
const CONTROL_PLANE_USER: &str = "portcullis-control-plane";

/// The step that failed. No message holds a key.
#[derive(Debug, thiserror::Error)]
enum InitError {
    #[error("{0} is not in PATH; --{0} PATH names it")]
    Program(&'static str),
    #[error("two members have the same name")]
    SameMember,
    #[error("{0:?} cannot be the name of a namespace")]
    Namespace(String),
    #[error("--forget tenant={0}: no such tenant is remembered in store.json")]
    NoTenant(String),
    #[error("--server-name {0:?} is neither a DNS name nor an IP address")]
    ServerName(String),
    #[error("cannot {step} {}", path.display())]
    File { step: &'static str, path: PathBuf, source: io::Error },
    #[error("cannot understand {}", path.display())]
    Settings { path: PathBuf, source: serde_json::Error },
    #[error("cannot write JSON")]
    Json(#[source] serde_json::Error),
    #[error("cannot make the certificate {name}")]
    Certificate { name: String, source: rcgen::Error },
    #[error("the CA {} cannot be read, or ends within a year; a new CA is a new store: docs/store.md", .0.display())]
    EndingAuthority(PathBuf),
    #[error("the system has no randomness")]
    Randomness,
    #[error("the clock is before 1970")]
    Clock,
    #[error(transparent)]
    Runtime(#[from] crate::runtime::RuntimeError),
    #[error(transparent)]
    Release(#[from] release::ReleaseError),
    #[error(transparent)]
    Apply(#[from] apply::ApplyError),
}

impl InitError {
    fn file(step: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { step, path, source }
    }
}

pub(crate) fn run(arguments: &Init) -> ExitCode {
    match init(arguments) {
        Ok(text) => crate::print(&text),
        Err(error) => crate::fail(&error),
    }
}

fn init(arguments: &Init) -> Result<String, InitError> {
    let mut layout = Layout::open(&arguments.data_dir)?;
    let settings = Settings::of(&layout, &arguments.store, &arguments.forgotten)?;
    let runtime = crate::runtime::runtime(crate::runtime::Threads::Current)?;
    let release = match arguments.kube_apiserver_version {
        Some(given) => Some(given.checked()?),
        None => runtime.block_on(Release::of(&settings.kube_apiserver))?,
    };
    layout::lay_out(&mut layout, &settings, release, Renewal { now: now()?, all: arguments.renew })?;
    let mut text: String = layout.written().iter().map(|name| format!("wrote {name}\n")).collect();
    if release.is_none() && !text.is_empty() {
        text.push_str(&unknown_release(&settings));
    }
    if arguments.apply {
        let kubeconfig = layout.path(ADMIN_KUBECONFIG);
        let first = settings.first();
        let lookout = Lookout::new(&layout, &first, arguments.timeout);
        let applied = runtime.block_on(apply::apply(&kubeconfig, &settings, lookout, arguments.prune))?;
        text.extend(applied.names.iter().map(|name| format!("applied {name}\n")));
        text.extend(applied.removed.iter().map(|name| format!("removed {name}\n")));
    }
    if text.is_empty() {
        text.push_str("nothing to do\n");
    }
    Ok(text)
}

/// A note for layouts that are made on another host than the one of the programs.
fn unknown_release(settings: &Settings) -> String {
    let program = settings.kube_apiserver.display();
    format!(
        "{program} is not here: new files are for kube-apiserver {} or newer (--kube-apiserver-version)\n",
        Release::NEWEST
    )
}

fn now() -> Result<OffsetDateTime, InitError> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|_| InitError::Clock)?;
    let seconds = i64::try_from(since.as_secs()).map_err(|_| InitError::Clock)?;
    OffsetDateTime::from_unix_timestamp(seconds).map_err(|_| InitError::Clock)
}
