# bash completion for cfrunner(1). It asks the program itself which commands and flags it knows, so
# that it cannot tell of others; the answer comes in a few milliseconds.

_cfrunner_words() { # the commands of a usage screen: lines that begin with two spaces and a word
    "$@" --help 2>/dev/null | sed -nE 's/^  ([a-z][a-z-]*) .*/\1/p' | sort -u
}

_cfrunner_flags() { # the first word of each line that begins with two spaces and a dash, and what usage names
    { "$@" --help-all 2>/dev/null || "$@" --help 2>/dev/null; } | grep -oE '^  --?[a-z][a-z-]*|^usage:.*' |
        grep -oE -- '[ [(|]--?[a-z][a-z-]*' | grep -oE -- '--?[a-z].*' | sort -u
}

_cfrunner() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} program=${COMP_WORDS[0]}
    local command=${COMP_WORDS[1]} sub=${COMP_WORDS[2]} words=
    COMPREPLY=()
    # readline breaks words at "=": --flag=VALUE is three of them.
    [ "$cur" != = ] || cur=
    [ "$prev" != = ] || prev=${COMP_WORDS[COMP_CWORD - 2]}

    if [ "$COMP_CWORD" = 1 ]; then
        words="$(_cfrunner_words "$program") --help --version"
    elif [ "$COMP_CWORD" = 2 ]; then
        case $command in
            test) words='oci matrix' ;;
            validate) words='release observation acp-vectors oneshot-vectors result recording' ;;
            schema) words='admit check' ;;
            init) words='oneshot acp' ;;
            correspond) words=$(_cfrunner_words "$program" correspond) ;;
        esac
    elif [ "$COMP_CWORD" = 3 ] && [ "$command $sub" = 'correspond journal' ]; then
        words='init append list claims voice verify keys'
    fi
    case $prev in
        --protocol) words='acp-v1 oneshot-v1' ;;
        --prompt-transport) words='stdin argv_path' ;;
        --output-mode) words='text stream_json' ;;
        --output-schema-transport) words='argv_json argv_path' ;;
        --platform) words='linux/amd64 linux/arm64' ;;
        --model-wire-dialect) words='anthropic_messages openai_chat openai_responses fal_queue' ;;
        --pull) words='missing always never' ;;
        --permission) words='deny allow end' ;;
        --elicitation) words='off decline end' ;;
        --session-method) words='auto resume load' ;;
        --session-end) words='close keep delete logout' ;;
        --torture) words=quick ;;
        --retention) words='durable ephemeral_zdr' ;;
        --hook-on-failure) words='abort continue' ;;
        --continuity) words='fresh same_run_resume event_log_rebuild' ;;
        --wire) words='acp oneshot' ;;
        --build-context | --collect | --checkpoint | --restore | --state-in | --state-out | --state-dir | --directory)
            mapfile -t COMPREPLY < <(compgen -d -- "$cur")
            return ;;
    esac
    if [[ $cur == -* ]]; then
        case $command in
            test) words=$(_cfrunner_flags "$program" test "$sub") ;;
            correspond) # "journal" has commands of its own
                [ "$sub" = journal ] && sub="journal ${COMP_WORDS[3]}"
                # shellcheck disable=SC2086
                words=$(_cfrunner_flags "$program" correspond $sub) ;;
            '' | -*) ;;
            *) words=$(_cfrunner_flags "$program" "$command") ;;
        esac
    fi
    if [ -n "$words" ]; then
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
    else
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
    fi
}
complete -o filenames -F _cfrunner cfrunner
