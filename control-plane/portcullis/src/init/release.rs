use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::str::FromStr;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::process::Command;

/// How long a program may take for its version.
const PATIENCE: Duration = Duration::from_secs(30);
/// Maximum size of an answer: a line.
const MAX_BYTES: u64 = 256;

/// A minor release of Kubernetes 1, by which files of kube-apiserver differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Release(u16);

/// Why the release of a kube-apiserver is not known, or not taken.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReleaseError {
    #[error("cannot run {} --version; --kube-apiserver-version names its release", .0.display())]
    Run(PathBuf, #[source] io::Error),
    #[error("{} --version does not end; --kube-apiserver-version names its release", .0.display())]
    Hangs(PathBuf),
    #[error("{} --version says {text:?}, which is no release of Kubernetes; --kube-apiserver-version names it", program.display())]
    NoRelease { program: PathBuf, text: String },
    #[error("kube-apiserver {0} is too old for a store: {oldest} is the oldest that serves what init applies", oldest = Release::OLDEST)]
    TooOld(Release),
}

impl Release {
    /// Serves `ValidatingAdmissionPolicy` of v1, and reads `AuthenticationConfiguration` of v1beta1 without a feature gate.
    const OLDEST: Self = Self(30);
    /// The last one with files of its own.
    pub(super) const NEWEST: Self = Self(34);
    /// One for each way in which files are written.
    pub(super) const ALL: [Self; 3] = [Self::OLDEST, Self(32), Self::NEWEST];

    /// The release of a program; `None` where it is not on this host.
    pub(super) async fn of(program: &Path) -> Result<Option<Self>, ReleaseError> {
        let text = match tokio::time::timeout(PATIENCE, version_text(program)).await {
            Ok(Ok(text)) => text,
            Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Ok(Err(error)) => return Err(ReleaseError::Run(program.to_owned(), error)),
            Err(_) => return Err(ReleaseError::Hangs(program.to_owned())),
        };
        let number = text.trim().strip_prefix("Kubernetes ").and_then(|number| number.parse().ok());
        let release: Self = number.ok_or_else(|| ReleaseError::NoRelease { program: program.to_owned(), text })?;
        release.checked().map(Some)
    }

    /// The release, if a store can have it.
    pub(super) fn checked(self) -> Result<Self, ReleaseError> {
        if self < Self::OLDEST { Err(ReleaseError::TooOld(self)) } else { Ok(self) }
    }

    /// Whether it reads `AuthenticationConfiguration` of v1.
    pub(super) fn reads_authentication_v1(self) -> bool {
        self.0 >= 34
    }

    /// Whether an `AuthenticationConfiguration` may bound what anonymous clients ask for, without a feature gate.
    pub(super) fn bounds_anonymous(self) -> bool {
        self.0 >= 32
    }
}

async fn version_text(program: &Path) -> io::Result<String> {
    let mut child = Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    let mut text = Vec::new();
    if let Some(output) = child.stdout.take() {
        output.take(MAX_BYTES).read_to_end(&mut text).await?;
    }
    // After its line it has nothing to do; what ends otherwise has said no version.
    if !child.wait().await?.success() {
        return Err(io::Error::other("it failed"));
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

impl fmt::Display for Release {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "1.{}", self.0)
    }
}

impl FromStr for Release {
    type Err = &'static str;

    /// Reads 1.34, v1.34.2 and v1.34.2+k3s1.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = "it must be a release of Kubernetes, like 1.34";
        let minor = text.strip_prefix('v').unwrap_or(text).strip_prefix("1.").ok_or(wrong)?;
        let end = minor.find(|one: char| !one.is_ascii_digit()).unwrap_or(minor.len());
        let (number, rest) = minor.split_at(end);
        if !rest.is_empty() && !rest.starts_with(['.', '-', '+']) {
            return Err(wrong);
        }
        number.parse().map(Self).map_err(|_| wrong)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn releases_are_read() {
        let table = [
            ("1.34", Some(34)),
            ("v1.33.13", Some(33)),
            ("v1.30.5+k3s1", Some(30)),
            ("v1.35-alpha.1", Some(35)),
            ("v2.1", None),
            ("1.", None),
            ("1.34x", None),
            ("1.99999999", None),
            ("", None),
        ];
        for (text, minor) in table {
            assert_eq!(text.parse().ok(), minor.map(Release), "{text}");
        }
    }

    /// Programs with their answers, good and bad.
    #[test]
    fn programs_are_asked_for_their_release() {
        let dir = tempfile::tempdir().unwrap();
        let asked = |script: Option<&str>| {
            let program = dir.path().join("server");
            let _ = std::fs::remove_file(&program);
            if let Some(script) = script {
                std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
                std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
            }
            let runtime = crate::runtime::runtime(crate::runtime::Threads::Current).unwrap();
            runtime.block_on(Release::of(&program)).map_err(|error| error.to_string())
        };
        assert_eq!(asked(None), Ok(None));
        assert_eq!(asked(Some("[ \"$*\" = --version ] && echo Kubernetes v1.33.13")), Ok(Some(Release(33))));
        assert_eq!(asked(Some("echo Kubernetes v1.30.0")), Ok(Some(Release(30))));
        let table = [
            ("echo Kubernetes v1.29.15", "1.29 is too old for a store: 1.30 is the oldest"),
            ("echo etcd Version: 3.6.8", "no release of Kubernetes"),
            ("exit 3", "cannot run"),
            ("yes", "cannot run"),
        ];
        for (script, message) in table {
            let error = asked(Some(script)).unwrap_err();
            assert!(error.contains(message), "{script}: {error}");
        }
    }
}
