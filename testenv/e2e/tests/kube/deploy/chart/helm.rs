use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use portcullis_harness::rundir::RunDir;
use portcullis_harness::{deps, project_root};
use serde_json::Value;

use crate::deploy::apply::Cluster;
use crate::deploy::rendered::{Naming, Rendered};

/// The name of a release, and its namespace.
#[derive(Clone, Copy)]
pub(in crate::deploy) struct Release<'a> {
    pub(in crate::deploy) name: &'a str,
    pub(in crate::deploy) namespace: &'a str,
}

/// Naming as kustomize's.
pub(super) const DEFAULT: Release<'static> = Release { name: "portcullis", namespace: "portcullis" };

/// Helm, with directories of its own in the place of the user's.
pub(in crate::deploy) struct Helm {
    program: PathBuf,
    kubeconfig: Option<PathBuf>,
    pub(super) run: RunDir,
}

impl Helm {
    /// `None`, said loudly, where Helm is not built.
    pub(in crate::deploy) fn find(test: &str) -> Option<Self> {
        let program = deps::helm_or_skip(test).unwrap()?;
        Some(Helm { program, kubeconfig: None, run: RunDir::new(&format!("helm-{test}")).unwrap() })
    }

    /// As the administrator of a cluster.
    pub(super) fn at(mut self, cluster: &Cluster) -> Self {
        let kubeconfig = cluster.kube.kubeconfig().identity(cluster.kube.admin());
        self.kubeconfig = Some(kubeconfig.write(&self.run.join("admin.kubeconfig")).unwrap());
        self
    }

    pub(super) fn run(&self, args: &[&str]) -> Output {
        let mut command = Command::new(&self.program);
        command.args(args).env_remove("KUBECONFIG").env("HOME", self.run.path());
        for kind in ["CACHE", "CONFIG", "DATA"] {
            command.env(format!("HELM_{kind}_HOME"), self.run.join(&format!("helm-{kind}")));
        }
        if let Some(path) = &self.kubeconfig {
            command.env("KUBECONFIG", path);
        }
        command.output().unwrap()
    }

    /// Standard output of a command that succeeds without a warning.
    pub(super) fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        let stderr = stderr(&output);
        assert!(output.status.success() && stderr.is_empty(), "helm {}: {stderr}", args.join(" "));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Standard error of a command that fails.
    pub(super) fn refused(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(!output.status.success(), "helm {}: {}", args.join(" "), String::from_utf8_lossy(&output.stdout));
        stderr(&output)
    }

    /// A file of values.
    pub(super) fn file(&self, values: &Value) -> String {
        let path = self.run.next("values");
        std::fs::write(&path, values.to_string()).unwrap();
        path.display().to_string()
    }

    /// The output of `helm template`.
    pub(in crate::deploy) fn render(&self, release: Release<'_>, values: &Value) -> Rendered {
        self.template(release, values, &[])
    }

    /// The same for values that the schema may refuse.
    pub(super) fn render_unchecked(&self, release: Release<'_>, values: &Value) -> Rendered {
        self.template(release, values, &["--skip-schema-validation"])
    }

    fn template(&self, release: Release<'_>, values: &Value, flags: &[&str]) -> Rendered {
        let (chart, values) = (chart(), self.file(values));
        let command = ["template", release.name, &chart, "-n", release.namespace, "-f", &values];
        let text = self.ok(&[&command[..], flags].concat());
        let is_named_after = release.name.contains("portcullis");
        let prefix = if is_named_after { release.name.to_owned() } else { format!("{}-portcullis", release.name) };
        Rendered::new(text, Naming { namespace: release.namespace.to_owned(), prefix })
    }

    /// `helm COMMAND NAME [CHART] -n NAMESPACE ARGS`.
    pub(super) fn release<'a>(command: &'a str, release: Release<'a>, args: &[&'a str]) -> Vec<&'a str> {
        [&[command, release.name, "-n", release.namespace], args].concat()
    }

    /// A copy of the chart, for another version of it.
    pub(super) fn copy_of_chart(&self) -> PathBuf {
        let copy = self.run.join("chart");
        copy_directory(Path::new(&chart()), &copy);
        copy
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The directory of the chart.
pub(super) fn chart() -> String {
    project_root().join("deploy/helm/portcullis").display().to_string()
}

fn copy_directory(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_directory(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}
