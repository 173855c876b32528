#compdef wick
# wick's completions for zsh, from `wick completion zsh`
_wick()
{
    local -a verbs=(
        'new:start an operator, or a package of operators, from a template'
        'build:turn operator files into a module'
        'list:list operators\: the shipped ones, a file'\''s, or a module'\''s'
        'show:say what an operator takes and returns, and what is made of it'
        'check:find out whether operators are right'
        'bench:measure operators beside torch and beside what the machine allows'
        'tune:measure the launch choices that an operator leaves open, on this GPU'
        'cache:look at what wick.load keeps, check it, clear it'
        'doctor:check that operators can be built and called here; say what to do if not'
        'config:print paths and flags for other build systems'
        'completion:print completions for a shell'
        'man:print the manual page'
    )
    if (( CURRENT == 2 )); then
        _describe verb verbs
        return
    fi
    shift words
    (( CURRENT-- ))
    case $words[1] in
        new)
        _arguments '--help[this text]' \
            '--package[a package that pip installs, in a folder NAME]' \
            '--dir=[the folder to write into (else this one)]:DIR:_files' \
            '--force[write over files that exist]' \
            '--cuda[an operator with a CUDA half]'
        ;;
        build)
        _arguments '--help[this text]' \
            '-o+[where the module goes]:MODULE.so:_files' \
            '--output=[where the module goes]:MODULE.so:_files' \
            '--namespace=[namespace of files that name none (else\: local)]:NS:_files' \
            '--portable[for any x86-64 CPU, with a faster version for x86-64-v3 (the default)]' \
            '--native[for this machine'\''s CPU only]' \
            '--debug[symbols, no optimisation, WICK_AT checks its indices]' \
            '--sanitize[with AddressSanitizer and UBSan; what loads the module then needs their library first\: LD_PRELOAD=$(cc -print-file-name=libasan.so)]' \
            '--arch=[the GPUs to compile kernels for, as sm_80,sm_90; PTX of the newest goes with them, for GPUs to come (+PTX and -PTX at the end say so or not)]:LIST:_files' \
            '--no-cuda[leave the operators'\'' CUDA versions out]' \
            '--cc=[the C compiler]:CC:_files' \
            '--flag=[one more flag for the compiler; may be repeated]:FLAG:_files' \
            '--cuda-flag=[one more flag for the compiler of kernels, spelt as nvcc'\''s; may be repeated]:FLAG:_files' \
            '--include=[the folder of <wick/op.h>]:DIR:_files' \
            '--depfile=[write the files that went into the module, as a rule for make or ninja]:FILE:_files' \
            '--compile-commands=[write DIR/compile_commands.json and DIR/.clangd, so that an editor understands the files; without -o nothing is built]:DIR:_files' \
            '--stub=[write the operators as Python functions, for editors and type checkers; without -o nothing is built]:FILE.pyi:_files' \
            '--keep[keep the generated files and say where they are]' \
            '-q[say nothing when all goes well]' \
            '--quiet[say nothing when all goes well]' \
            '-v[say what is done]' \
            '--verbose[say what is done]' \
            '*:file:_files'
        ;;
        list)
        _arguments '--help[this text]' \
            '*:file:_files'
        ;;
        show)
        _arguments '--help[this text]' \
            '--schema[the schema that torch registers]' \
            '--prototype[the C functions to write, for the CPU and for GPUs]' \
            '--stub[the Python functions, as a stub file (.pyi)]' \
            '--glue[the C code that is generated around a source]' \
            '--command[how wick.load calls the C compiler on that code, and the flags for kernels]' \
            '--cache[where the modules lie that wick.load has built]' \
            '--assembly[the loops that the C compiler made of it]' \
            '--sass[the instructions of its kernels]' \
            '--resources[registers, stack and shared memory of its kernels, as ptxas gave them; this and --sass need cuobjdump, of the CUDA toolkit or of triton]' \
            '--types=[for what is made of a source\: the element types, as "f32" or "f32 i64"]:TYPES:_files' \
            '--arch=[for --sass and --resources\: the GPU, as sm_90]:ARCH:_files' \
            '--flags[every compiler switch that Wick passes, and why]' \
            '--cc=[the C compiler]:CC:_files' \
            '*:file:_files'
        ;;
        check)
        _arguments '--help[this text]' \
            '--reference=[the reference'\''s file (else NAME.py beside the source)]:FILE:_files' \
            '--only=[judge only these of the list above, as forward,memory]:WHAT:_files' \
            '--types=[element types, as "f32 bf16" (else all)]:TYPES:_files' \
            '--device=[cpu, cuda or cuda\:N (else all there are)]:DEVICE:_files' \
            '--depth=[quick, default or full]:DEPTH:_files' \
            '--seed=[of sizes and values (else 0)]:N:_files' \
            '--time=[go on with further seeds for so long]:SECONDS:_files' \
            '--limit=[of work for each judge of an operator (else 120, without end at depth full); 0\: no limit]:SECONDS:_files' \
            '--case=[only this case, as a report prints it]:CASE:_files' \
            '--first[stop at the first fault of a file, and leave it as large as it is]' \
            '--flags=[for the C compiler]:FLAGS:_files' \
            '--jobs=[processes at a time (else one per CPU, at most 4)]:N:_files' \
            '--json=[write what was found; - is stdout, without the report]:FILE:_files' \
            '--junit=[the same as JUnit'\''s XML]:FILE:_files' \
            '1:what:((forward\:"results against the reference, within the rounding of the type" gradient\:"gradients against the reference'\''s, and by finite differences" memory\:"nothing read or written outside, all results written, inputs untouched" repeat\:"the same result again, after other calls, in another process" threads\:"the same on any number of threads, and from several callers" leak\:"no memory, file, thread or changed setting is left behind" refuse\:"wrong types, shapes and devices get an error" opcheck\:"torch.library.opcheck" huge\:"more than 2^31 elements" stream\:"on a GPU\: other streams, captured graphs"))' \
            '*:file:_files'
        ;;
        bench)
        _arguments '--help[this text]' \
            '--shapes=[sizes from this file (else NAME.shapes.txt beside the source)]:FILE:_files' \
            '--size=[these sizes, as "N=8x2048 C=4096"; may be repeated]:SIZES:_files' \
            '--types=[element types, as "f32 bf16", or all (else f32)]:TYPES:_files' \
            '--reference=[the reference'\''s file (else NAME.py beside the source)]:FILE:_files' \
            '--against=[of eager, compile, dispatcher and the file'\''s baselines]:NAMES:_files' \
            '--device=[cpu, cuda or cuda\:N (else all there are)]:DEVICE:_files' \
            '--threads=[torch'\''s threads on the CPU]:N:_files' \
            '--cache=[warm, cold or both (else both)]:STATE:_files' \
            '--rounds=[how often each is timed (else 21)]:N:_files' \
            '--quick[fewer and shorter samples]' \
            '--seed=[of the random inputs (else 0)]:N:_files' \
            '--json=[write JSON lines; - is stdout, without the table]:FILE:_files' \
            '--html=[write a report with tables and plots, one file]:FILE:_files' \
            '--plots=[write the roofline and a sweep over sizes, PNG and SVG]:DIR:_files' \
            '--profile=[write a trace of a few calls, for ui.perfetto.dev]:FILE:_files' \
            '--compare=[say what is slower than in this file of --json]:FILE:_files' \
            '*:file:_files'
        ;;
        tune)
        _arguments '--help[this text]' \
            '--shapes=[sizes from this file (else NAME.shapes.txt beside the source)]:FILE:_files' \
            '--size=[these sizes, as "N=8x2048 C=4096"; may be repeated]:SIZES:_files' \
            '--types=[element types, as "f32 bf16", or all (else f32)]:TYPES:_files' \
            '--device=[cuda or cuda\:N (else the current one)]:DEVICE:_files' \
            '--cache=[warm or cold (else cold\: the kernel alone)]:STATE:_files' \
            '--rounds=[how often the best are timed beside the rule (else 21)]:N:_files' \
            '--dry-run[measure and report, keep nothing]' \
            '--clear[forget what was measured of these operators]' \
            '*:file:_files'
        ;;
        cache)
        _arguments '--help[this text]' \
            '--json[for list and size\: in a form for programs]' \
            '1:what:((path\:"where it is" list\:"what is in it\: key, size, age, element types and source, last used first" size\:"how many files and bytes" verify\:"reads every entry, removes those that are broken; exit code 1 if there were any" clear\:"removes everything"))'
        ;;
        doctor)
        _arguments '--help[this text]' \
            '--json[for programs]' \
            '--verbose[paths and whole messages as well]'
        ;;
        config)
        _arguments '--help[this text]' \
            '--cflags[flags to compile a program that includes <wick/wick.h>]' \
            '--include[the folder of <wick/op.h>]' \
            '--libs[flags to link a program with libwick.so]' \
            '--cmake[the folder of wick-config.cmake, for -Dwick_DIR=]' \
            '--version[the version]'
        ;;
        completion)
        _arguments '--help[this text]' \
            '1:what:((bash\:"for bash" zsh\:"for zsh" fish\:"for fish"))'
        ;;
        man)
        _arguments '--help[this text]'
        ;;
    esac
}
if [[ $funcstack[1] == _wick ]]; then _wick "$@"; else compdef _wick wick; fi
