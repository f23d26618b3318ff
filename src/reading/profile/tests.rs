use super::*;

#[test]
fn hosts_match_on_label_boundaries_and_the_longest_wins() {
    for (host, name) in [
        ("api.openai.com", "openai"),
        ("my-deployment.openai.azure.com", "azure-openai"),
        ("MY.OpenAI.Azure.COM.", "azure-openai"),
        ("api.github.com", "github"),
        ("models.github.ai", "github-models"),
        ("notgithub.com", "standard"),
        ("github.com.evil.example", "standard"),
        ("slack.com", "slack"),
        ("workspace.slack.com", "slack"),
        ("hooks.slack.com", "slack-webhooks"),
        ("us-central1-aiplatform.googleapis.com", "gemini"),
        ("bedrock-runtime.eu-west-1.amazonaws.com", "aws-bedrock"),
        ("", "standard"),
        ("127.0.0.1", "standard"),
    ] {
        assert_eq!(Profile::for_host(host).name(), name, "{host}");
    }
}

#[test]
fn an_unknown_name_is_the_standard_profile() {
    assert_eq!(Profile::named("no-such-vendor").name(), "standard");
    assert_eq!(Profile::named("groq").name(), "groq");
}

#[test]
fn the_table_is_well_formed_and_every_row_says_something() {
    let mut names: Vec<_> = TABLE.iter().map(Profile::name).collect();
    assert_eq!(names.first(), Some(&"standard"));
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "each name once");
    let rows: Vec<serde_json::Map<String, serde_json::Value>> =
        serde_json::from_str(include_str!("vendors.json")).unwrap();
    for row in rows {
        let says = row.keys().any(|key| !matches!(key.as_str(), "name" | "hosts" | "notes"));
        assert!(says, "{:?} says only a name", row["name"]);
    }
}
