use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use portcullis_attach::ConditionVerdict;

/// The definition whose annotation has the version of all.
const DEFINITION: &str = "gatewayclasses.gateway.networking.k8s.io";
/// The annotation of the definitions with the release that they are of.
const VERSION: &str = "gateway.networking.k8s.io/bundle-version";
/// The release that is served: its patch versions change no field.
const SUPPORTED: &str = "v1.6.";

/// The condition `SupportedVersion` of classes. `None` if the definition cannot be read now.
pub(super) async fn supported(client: &Client) -> Option<ConditionVerdict> {
    let kind = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let definitions: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&kind));
    let definition = definitions.get_metadata(DEFINITION).await.ok()?;
    let version = definition.metadata.annotations.as_ref().and_then(|all| all.get(VERSION)).map(String::as_str);
    Some(verdict(version.unwrap_or_default()))
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
