# wick's completions for bash, from `wick completion bash`
_wick()
{
    local cur=${COMP_WORDS[COMP_CWORD]} words='' files=''
    COMPREPLY=()
    case ${COMP_CWORD}:${COMP_WORDS[1]} in
    1:*) words='new build list show check bench tune cache doctor config completion man --help --version' ;;
    *:new) words='--package --dir= --force --cuda --help' ;;
    *:build) words='--output= --namespace= --portable --native --debug --sanitize --arch= --no-cuda --cc= --flag= --cuda-flag= --include= --depfile= --compile-commands= --stub= --keep --quiet --verbose --help' files=yes ;;
    *:list) words='--help' files=yes ;;
    *:show) words='--schema --prototype --stub --glue --command --cache --assembly --sass --resources --types= --arch= --flags --cc= --help' files=yes ;;
    *:check) words='--reference= --only= --types= --device= --depth= --seed= --time= --limit= --case= --first --flags= --jobs= --json= --junit= --help forward gradient memory repeat threads leak refuse opcheck huge stream' files=yes ;;
    *:bench) words='--shapes= --size= --types= --reference= --against= --device= --threads= --cache= --rounds= --quick --seed= --json= --html= --plots= --profile= --compare= --help' files=yes ;;
    *:tune) words='--shapes= --size= --types= --device= --cache= --rounds= --dry-run --clear --help' files=yes ;;
    *:cache) words='--json --help path list size verify clear' ;;
    *:doctor) words='--json --verbose --help' ;;
    *:config) words='--cflags --include --libs --cmake --version --help' ;;
    *:completion) words='--help bash zsh fish' ;;
    *:man) words='--help' ;;
    esac
    # After an option's `=`, or where operands are files: files.
    if [[ $cur != -* && ( $files || ${COMP_WORDS[COMP_CWORD-1]} == @(=|-o) || $cur == = ) ]]; then
        compopt -o filenames
        mapfile -t COMPREPLY < <(compgen -f -- "${cur#=}")
    else
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
        [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace
    fi
}
complete -F _wick wick
