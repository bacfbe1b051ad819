use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use portcullis_attach::ConditionVerdict;

/// The definition whose annotation has the version of all.
const DEFINITION: &str = "gatewayclasses.gateway.networking.k8s.io";
/// The annotation of the definitions with the release that they are of.
const VERSION: &str = "gateway.networking.k8s.io/bundle-version";
/// The release that is served: its patch versions change no field.
const SUPPORTED: &str = "v1.6.";

/// The condition `SupportedVersion` of classes, by the definition as it was read last.
#[derive(Default)]
pub(super) struct KnownVersion {
    known: Option<ConditionVerdict>,
    /// Whether it was logged that the definition cannot be read: a missing right does so each time.
    has_warned: bool,
}

impl KnownVersion {
    /// Reads the definition. The condition is `Unknown` until that succeeds.
    pub(super) async fn follow(&mut self, client: &Client) -> ConditionVerdict {
        self.take(read(client).await)
    }

    fn take(&mut self, found: Result<ConditionVerdict, String>) -> ConditionVerdict {
        match found {
            Ok(verdict) => {
                self.has_warned = false;
                self.known = Some(verdict.clone());
                verdict
            }
            Err(error) => {
                if !self.has_warned {
                    tracing::warn!(definition = DEFINITION, %error, "the version of the definitions cannot be read");
                }
                self.has_warned = true;
                self.known.clone().unwrap_or_else(|| ConditionVerdict {
                    kind: "SupportedVersion",
                    status: false,
                    reason: "VersionNotRead",
                    message: format!(
                        "CustomResourceDefinition {DEFINITION} cannot be read; the control plane's log says why"
                    ),
                })
            }
        }
    }
}

async fn read(client: &Client) -> Result<ConditionVerdict, String> {
    let kind = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let definitions: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&kind));
    let definition = definitions.get_metadata(DEFINITION).await.map_err(|error| error.to_string())?;
    let version = definition.metadata.annotations.as_ref().and_then(|all| all.get(VERSION)).map(String::as_str);
    Ok(verdict(version.unwrap_or_default()))
}

fn verdict(version: &str) -> ConditionVerdict {
    if version.starts_with(SUPPORTED) {
        let message = String::new();
        return ConditionVerdict { kind: "SupportedVersion", status: true, reason: "SupportedVersion", message };
    }
    // It is written by those who install definitions.
    let version: String = version.chars().filter(|one| !one.is_control()).take(32).collect();
    let message = format!("the definitions are of version {version:?}, and {SUPPORTED}x is supported");
    ConditionVerdict { kind: "SupportedVersion", status: false, reason: "UnsupportedVersion", message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_unknown_until_it_was_read() {
        let mut known = KnownVersion::default();
        let mut told = |found: Result<&str, &str>| {
            let verdict = known.take(found.map(verdict).map_err(str::to_owned));
            format!("{} {}", verdict.written_status(), verdict.reason)
        };
        assert_eq!(told(Err("forbidden")), "Unknown VersionNotRead");
        assert_eq!(told(Ok("v1.6.3")), "True SupportedVersion");
        assert_eq!(told(Err("forbidden")), "True SupportedVersion", "what was read last holds");
        assert_eq!(told(Ok("v1.7.0")), "False UnsupportedVersion");
    }

    #[test]
    fn version_is_supported_up_to_its_patch() {
        for (version, is_supported) in [
            ("v1.6.3", true),
            ("v1.6.0", true),
            ("v1.7.0", false),
            ("v1.60.0", false),
            ("", false),
            ("v2.6.0\n", false),
        ] {
            let verdict = verdict(version);
            assert_eq!((verdict.status, verdict.message.contains('\n')), (is_supported, false), "{version:?}");
        }
    }
}
