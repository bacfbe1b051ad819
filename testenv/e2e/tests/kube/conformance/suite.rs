//! A run of the suite, with our options and with reasons for whatever it does not cover.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use portcullis_harness::conformance::ConformanceSuite;
use portcullis_harness::process::{Process, Spec};
use portcullis_harness::{project_root, wait};
use serde_json::{Value, json};

use super::backends::EchoBackends;
use super::envoys::PodEnvoys;
use crate::sources::{GatewayApiSite, own_address};

/// All tests of the profile, those that fail included.
const LIMIT: Duration = Duration::from_secs(1_800);
/// Between two looks at the suite's objects.
const PAUSE: Duration = Duration::from_millis(200);
/// The suite waits for these up to five minutes by default. Our answers take a second.
const SOON: [&str; 13] = [
    "createTimeout",
    "gatewayMustHaveAddress",
    "gatewayMustHaveCondition",
    "gatewayStatusMustHaveListeners",
    "gatewayListenersMustHaveConditions",
    "gwcMustBeAccepted",
    "httpRouteMustNotHaveParents",
    "httpRouteMustHaveCondition",
    "tlsRouteMustHaveCondition",
    "routeMustHaveParents",
    "namespacesMustBeReady",
    "latestObservedGenerationSet",
    "defaultTestTimeout",
];

/// testenv/conformance/profile.json.
pub(super) struct CoveredProfile {
    profile: String,
    supported_features: Vec<String>,
    /// Extended features of the profile, each with the reason.
    pub(super) unsupported_features: BTreeMap<String, String>,
    /// Tests that are not run, each with the reason.
    pub(super) skipped_tests: BTreeMap<String, String>,
    /// Tests that fail, each with the reason.
    pub(super) failing_tests: BTreeMap<String, String>,
}

impl CoveredProfile {
    pub(super) fn read() -> Self {
        let text = std::fs::read_to_string(project_root().join("testenv/conformance/profile.json")).unwrap();
        let json: Value = serde_json::from_str(&text).unwrap();
        let reasons = |name: &str| serde_json::from_value(json[name].clone()).unwrap();
        Self {
            profile: json["profile"].as_str().unwrap().to_owned(),
            supported_features: serde_json::from_value(json["supportedFeatures"].clone()).unwrap(),
            unsupported_features: reasons("unsupportedFeatures"),
            skipped_tests: reasons("skippedTests"),
            failing_tests: reasons("failingTests"),
        }
    }
}

/// The outcome of a run.
pub(super) struct SuiteRun {
    /// Whether each test passed, as far as it was run.
    pub(super) passed: BTreeMap<String, bool>,
    /// The suite's own report. Its file ends with the run's directory.
    pub(super) report: String,
    /// The suite's output.
    pub(super) log: String,
}

/// Runs all tests of the profile, or one.
pub(super) fn run(site: &GatewayApiSite, suite: &ConformanceSuite, test: Option<&str>) -> Option<SuiteRun> {
    let ip = own_address()?;
    let (fixture, profile) = (&site.fixture, CoveredProfile::read());
    let class = json!({"controllerName": "portcullis.dev/gateway-controller"});
    site.apply("GatewayClass", "", "portcullis", &class);
    let report = fixture.run.join("report.yaml");
    let timeout = format!("{}s", 20 * wait::deadline_factor());
    let timeouts: BTreeMap<&str, &String> = SOON.iter().map(|name| (*name, &timeout)).collect();
    let options = json!({
        "gatewayClassName": "portcullis",
        "conformanceProfiles": [profile.profile],
        "supportedFeatures": profile.supported_features,
        "skipTests": profile.skipped_tests.keys().collect::<Vec<_>>(),
        "runTest": test.unwrap_or_default(),
        "timeoutConfig": timeouts,
        // GatewaySecretMissingReferenceGrant sees the grants of tests beside it, as long as those fail slowly.
        "disableParallelTests": true,
        // They end with the kube-apiserver.
        "cleanupBaseResources": false,
        "cleanupTestResources": true,
        "reportOutputPath": report,
        "implementation": {
            "organization": "portcullis", "project": "portcullis", "url": "https://portcullis.invalid/portcullis",
            "version": env!("CARGO_PKG_VERSION"), "contact": ["https://portcullis.invalid/portcullis"],
        },
    });
    let options = fixture.run.write("options.json", options.to_string()).unwrap();
    let kubeconfig = fixture.run.join("suite.kubeconfig");
    fixture.kube.kubeconfig().identity(fixture.kube.admin()).write(&kubeconfig).unwrap();
    let spec = Spec::new("suite", &suite.program, fixture.run.path())
        .flag("test.run", "^TestConformance$")
        .flag("test.v", "true")
        .flag("test.timeout", format!("{}s", LIMIT.as_secs()))
        .flag("conformance-options-file", options)
        .env("KUBECONFIG", kubeconfig);
    let process = Process::start(spec).unwrap();
    let mut backends = EchoBackends::new(&fixture.kube, &suite.echo_basic, fixture.run.make_dir("pods").unwrap(), ip);
    let mut envoys = PodEnvoys::new(&fixture.kube, site.plane(), fixture.run.make_dir("envoys").unwrap());
    let mut last: Option<Instant> = None;
    wait::until_ok("the suite's end", LIMIT, || {
        if last.is_none_or(|last| last.elapsed() > PAUSE) {
            backends.follow();
            envoys.follow();
            last = Some(Instant::now());
        }
        process.exit_status().ok_or_else(|| process.log_tail())
    })
    .unwrap();
    let log = process.log();
    let report = std::fs::read_to_string(&report).unwrap_or_else(|error| panic!("no report: {error}\n{log}"));
    Some(SuiteRun { passed: outcomes(&log), report, log })
}

/// The tests that were run: lines like `--- PASS: TestConformance/Name (1.00s)`.
fn outcomes(log: &str) -> BTreeMap<String, bool> {
    let outcome = |line: &str| {
        let (outcome, rest) = line.trim_start().strip_prefix("--- ")?.split_once(": TestConformance/")?;
        let name = rest.split(' ').next().filter(|name| !name.contains('/'))?;
        match outcome {
            "PASS" => Some((name.to_owned(), true)),
            "FAIL" => Some((name.to_owned(), false)),
            _ => None,
        }
    };
    log.lines().filter_map(outcome).collect()
}
