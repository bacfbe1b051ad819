//! Programs that drive client libraries (testenv/clients): through the gateway they see and do what they do past it.

use std::path::{Path, PathBuf};
use std::process::Command;

use portcullis_harness::{deps, project_root};
use serde_json::{Map, Value, json};

use super::place::{Place, Protocol, Way};

/// A library with its program.
struct Library {
    name: &'static str,
    /// The file that pins its version, and the words before it.
    pin: (&'static str, &'static str),
    /// The program below the directory of the built ones, and its first arguments.
    program: &'static [&'static str],
    /// The number of lines that it prints when it does everything.
    lines: usize,
}

const LIBRARIES: [Library; 10] = [
    Library {
        name: "client-go",
        pin: ("go/go.mod", "k8s.io/client-go v"),
        program: &["go/clients", "client-go"],
        lines: 8,
    },
    Library {
        name: "controller-runtime",
        pin: ("go/go.mod", "sigs.k8s.io/controller-runtime v"),
        program: &["go/clients", "controller-runtime"],
        lines: 3,
    },
    Library {
        name: "Flux (fluxcd/pkg/ssa)",
        pin: ("go/go.mod", "github.com/fluxcd/pkg/ssa v"),
        program: &["go/clients", "flux"],
        lines: 4,
    },
    Library {
        name: "Argo CD (gitops-engine)",
        pin: ("go/go.mod", "github.com/argoproj/argo-cd/gitops-engine v"),
        program: &["go/clients", "argo-cd"],
        lines: 6,
    },
    Library {
        name: "kube-rs",
        pin: ("rust/Cargo.lock", "name = \"kube\"\nversion = \""),
        program: &["rust/client"],
        lines: 9,
    },
    Library {
        name: "Python (kubernetes)",
        pin: ("python/requirements.txt", "kubernetes=="),
        program: &["python/venv/bin/python", "python/client.py"],
        lines: 9,
    },
    Library {
        name: "JavaScript (@kubernetes/client-node)",
        pin: ("javascript/package.json", "\"@kubernetes/client-node\": \""),
        program: &["/usr/bin/env", "node", "javascript/client.mjs"],
        lines: 8,
    },
    // It sends the name of the server's URL and no other, as clients do that know no `tls-server-name`.
    Library {
        name: "Java (fabric8 kubernetes-client)",
        pin: ("java/pom.xml", "<artifactId>kubernetes-client</artifactId>\n      <version>"),
        program: &["/usr/bin/env", "java", "-Djdk.net.hosts.file=HOSTS", "-cp", "java/lib/*", "dev.portcullis.Fabric8"],
        lines: 8,
    },
    // It verifies the server's certificate by `tls-server-name`, and sends the name of the URL all the same.
    Library {
        name: "Java (official client-java)",
        pin: ("java/pom.xml", "<artifactId>client-java</artifactId>\n      <version>"),
        program: &[
            "/usr/bin/env",
            "java",
            "-Djdk.net.hosts.file=HOSTS",
            "-cp",
            "java/lib/*",
            "dev.portcullis.Official",
        ],
        lines: 11,
    },
    Library { name: "Helm", pin: ("../scripts/versions.env", "HELM_VERSION="), program: &["helm"], lines: 4 },
];

/// Their directory; `None`, said loudly, where they are not built.
fn built(test: &str) -> Option<PathBuf> {
    deps::clients_or_skip(test).unwrap()
}

impl Library {
    /// The version that is pinned.
    fn version(&self) -> String {
        let (file, before) = self.pin;
        let text = std::fs::read_to_string(project_root().join("testenv/clients").join(file)).unwrap();
        let rest = text.split_once(before).unwrap_or_else(|| panic!("{file} does not pin {}", self.name)).1;
        let is_of_version = |letter: &char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '+');
        rest.chars().take_while(is_of_version).collect()
    }

    /// The lines that it prints on a way, with the pod's name taken out, or why it failed.
    fn run(&self, built: &Path, way: &Way<'_>) -> Result<Vec<String>, String> {
        if self.name == "Helm" {
            return helm(way);
        }
        // Words that are paths below the directory, classes of Java among them.
        let is_below = |word: &str| word.ends_with('*') || built.join(word).is_file();
        let hosts = way.file("hosts").display().to_string();
        let word = |word: &str| match is_below(word) {
            true => built.join(word).display().to_string(),
            false => word.replace("HOSTS", &hosts),
        };
        let words: Vec<String> = self.program.iter().map(|one| word(one)).collect();
        let mut command = Command::new(&words[0]);
        let is_by_name = self.program.iter().any(|word| word.contains("HOSTS"));
        let kubeconfig = if is_by_name { by_name(way) } else { way.kubeconfig().to_owned() };
        command.args(&words[1..]).arg(kubeconfig).arg(&way.pod).env("HOME", way.file("home"));
        lines(command.output(), way)
    }
}

/// The kubeconfig with the name of the TLS handshake in the URL, and a file of hosts that leads it to loopback.
fn by_name(way: &Way<'_>) -> PathBuf {
    let mut kubeconfig: Value = serde_json::from_slice(&std::fs::read(way.kubeconfig()).unwrap()).unwrap();
    let cluster = &mut kubeconfig["clusters"][0]["cluster"];
    let name = cluster["tls-server-name"].as_str().unwrap_or("localhost").to_owned();
    cluster["server"] = json!(cluster["server"].as_str().unwrap().replace("127.0.0.1", &name));
    std::fs::write(way.file("hosts"), format!("127.0.0.1 {name}\n")).unwrap();
    let path = way.file("kubeconfig-by-name");
    std::fs::write(&path, kubeconfig.to_string()).unwrap();
    path
}

fn lines(output: std::io::Result<std::process::Output>, way: &Way<'_>) -> Result<Vec<String>, String> {
    let output = output.map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout).replace(&way.pod, "POD");
    if output.status.success() {
        return Ok(text.lines().map(str::to_owned).collect());
    }
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(format!("{text}{}", errors.chars().take(2_000).collect::<String>()))
}

/// Installs, lists, upgrades and removes a release of a chart with one object.
fn helm(way: &Way<'_>) -> Result<Vec<String>, String> {
    let binary = deps::helm().map_err(|missing| missing.to_string())?;
    let (chart, name) = (way.file("chart"), format!("release-{}", way.pod));
    std::fs::create_dir_all(chart.join("templates")).unwrap();
    std::fs::write(chart.join("Chart.yaml"), "apiVersion: v2\nname: small\nversion: 0.1.0\n").unwrap();
    let object = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"{{ .Release.Name }}\"}\ndata: {key: \"{{ .Values.key }}\"}\n";
    std::fs::write(chart.join("templates/object.yaml"), object).unwrap();
    std::fs::write(chart.join("values.yaml"), "key: value\n").unwrap();
    let chart = chart.display().to_string();
    let runs: [&[&str]; 4] = [
        &["install", &name, &chart, "--wait"],
        &["upgrade", &name, &chart, "--set", "key=other", "--wait"],
        &["list", "--short", "--filter", &name],
        &["uninstall", &name, "--wait"],
    ];
    let mut done = Vec::new();
    for run in runs {
        let home = way.file("home");
        let mut command = Command::new(&binary);
        command.args(run).args(["--namespace", "default", "--kubeconfig"]).arg(way.kubeconfig()).env("HOME", home);
        lines(command.output(), way)?;
        done.push(run[0].to_owned());
    }
    Ok(done)
}

/// A library on all ways with both users: past the gateway, and through it in both modes.
fn compare(library: &Library, built: &Path, place: &Place) -> Result<(), String> {
    for user in [place.certificate(), place.token()] {
        let direct = place.directly(&user, Protocol::WebSocket);
        let expected = library.run(built, &direct).map_err(|error| format!("{direct}: {error}"))?;
        if expected.len() != library.lines {
            return Err(format!("{direct}: {} lines, not {}: {expected:?}", expected.len(), library.lines));
        }
        for way in place.through(&user, Protocol::WebSocket) {
            let seen = library.run(built, &way).map_err(|error| format!("{way}: {error}"))?;
            if seen != expected {
                return Err(format!("{way}: {seen:?}, and directly {expected:?}"));
            }
        }
    }
    Ok(())
}

#[test]
fn client_libraries_do_what_they_do_directly() {
    let Some(built) = built("libraries") else { return };
    let Some(place) = Place::start("libraries") else { return };
    let mut results = Map::new();
    let mut failures = Vec::new();
    for library in &LIBRARIES {
        let result = compare(library, &built, &place);
        eprintln!("{} {}: {result:?}", library.name, library.version());
        let told = result.as_ref().map_or("differs", |()| "as directly");
        results.insert(library.name.to_owned(), json!({"version": library.version(), "result": told}));
        failures.extend(result.err().map(|error| format!("{}: {error}", library.name)));
    }
    assert!(failures.is_empty(), "{failures:#?}");
    let path = project_root().join("docs/reference/clients.json");
    let text = serde_json::to_string_pretty(&Value::Object(results)).unwrap() + "\n";
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap_or_default(), text, "UPDATE_DOCS=1 make test-clients writes it");
}

/// A version that was not run is not on the page.
#[test]
fn clients_on_the_page_are_those_that_were_run() {
    let read = |name: &str| std::fs::read_to_string(project_root().join(name)).unwrap();
    let results: Value = serde_json::from_str(&read("docs/reference/clients.json")).unwrap();
    let page = read("docs/compatibility.md");
    assert_eq!(results.as_object().unwrap().len(), LIBRARIES.len());
    for library in &LIBRARIES {
        let (result, version) = (&results[library.name], library.version());
        assert_eq!(result["version"], version.as_str(), "{}: run `UPDATE_DOCS=1 make test-clients`", library.name);
        let row = format!("| {} | {version} | {} |", library.name, result["result"].as_str().unwrap());
        assert!(page.contains(&row), "docs/compatibility.md lacks: {row}");
    }
}
